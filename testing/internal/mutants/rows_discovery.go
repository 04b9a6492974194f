package main

var discoveryMutants = []mutant{
	{
		name:     "discovery-nulls-left-out",
		property: "What an instance does not have is written as null, as in Curator.",
		dir:      "recipes/discovery",
		in:       "JSONSerializer.Serialize",
		old:      "if i.Address != \"\" {",
		new:      "if true {",
		pkg:      "./recipes/discovery",
		test:     "^TestDocumentsOfJava$",
	},
	{
		name:     "discovery-disabled-returned",
		property: "A provider returns no disabled instance.",
		dir:      "recipes/discovery",
		in:       "(*ServiceProvider).accepts",
		old:      "if instance.Disabled {",
		new:      "if false {",
		pkg:      "./recipes/discovery",
		test:     "^TestAProviderReturnsNoDisabledInstance$",
	},
	{
		name:     "discovery-register-waits-on-after-its-context",
		property: "A Register whose context has ended returns, and its instance is removed in the background.",
		dir:      "recipes/discovery",
		in:       "(*ServiceDiscovery).giveUp",
		old:      "case <-ctx.Done():",
		new:      "case <-make(chan int):",
		pkg:      "./recipes/discovery",
		test:     "^TestAFailedRegisterDoesNotWaitForItsRemoval$",
	},
	{
		name:     "discovery-register-beside-a-removal",
		property: "A registration waits for the removal of the same instance, which would take the new znode for the old one.",
		dir:      "recipes/discovery",
		in:       "(*ServiceDiscovery).claim",
		old:      "case before == nil:",
		new:      "case before == nil || before.removal != nil:",
		pkg:      "./recipes/discovery",
		test:     "^TestARegistrationWaitsForTheRemovalOfTheSameInstance$",
	},
}
