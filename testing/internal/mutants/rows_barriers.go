package main

var barriersMutants = []mutant{
	{
		name:     "barriers-dead-round",
		property: "What has opened a round whose members have all died does not open the next.",
		dir:      "recipes/barriers",
		in:       "(*DistributedDoubleBarrier).isValid",
		old:      `return older != "", err`,
		new:      `return older != "" || err == nil, err`,
		pkg:      "./recipes/barriers",
		test:     "^TestTheOpeningOfARoundThatDiedIsNotForTheNext$",
		flags:    []string{"-short"},
	},
	{
		name:     "barriers-member-stays",
		property: "An Enter that fails leaves no member.",
		dir:      "recipes/barriers",
		in:       "(*DistributedDoubleBarrier).enter",
		old:      "return nil, b.giveUp(ctx, m, err)",
		new:      "return nil, err",
		pkg:      "./recipes/barriers",
		test:     "^TestAFailedEnterLeavesNothing$",
		flags:    []string{"-short"},
	},
}
