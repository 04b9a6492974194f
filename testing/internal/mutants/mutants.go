package main

import "slices"

// often is how many times a mutant is tried that decides whether two can hold a lock at the
// same time, or whether anything is left behind.
const often = 20

// table lists the mutants of all packages; each rows_ file has the mutants of one.
// Names are in kebab case and start with the package they break. A property is
// one sentence about the unbroken code.
var table = slices.Concat(
	retryMutants,
	zkserverMutants,
	locksMutants,
	frameworkMutants,
	conduitMutants,
	zkproxyMutants,
	checkerMutants,
	nemesisMutants,
	fenceMutants,
	valuesMutants,
	barriersMutants,
	queuesMutants,
	cacheMutants,
	followMutants,
	nodesMutants,
	partitionMutants,
	discoveryMutants,
	leaderMutants,
	curatorctlMutants,
	pageMutants,
	inspectMutants,
)
