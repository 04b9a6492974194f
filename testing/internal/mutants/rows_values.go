package main

// valuesMutants are those of recipes/atomic and recipes/shared.
var valuesMutants = []mutant{
	{
		name:     "atomic-set-without-version",
		property: "A change is applied only to the value that it was computed from.",
		dir:      "recipes/atomic",
		in:       "(*DistributedAtomicValue).set",
		old:      "framework.WithVersion(version)",
		new:      "framework.WithVersion(framework.AnyVersion)",
		pkg:      "./recipes/atomic",
		test:     "^TestUpdateSeesEachChangeOfOthers$",
		flags:    []string{"-short"},
	},
	{
		name:     "atomic-same-number-twice",
		property: "Each addition of a combined write has numbers of its own.",
		dir:      "recipes/atomic",
		in:       "(*number).write",
		old:      "at = part.value.Post",
		new:      "at = part.value.Pre",
		pkg:      "./recipes/atomic",
		test:     "^TestAdditionsOfManyClients$",
		flags:    []string{"-short"},
	},
	{
		name:     "atomic-repeated-without-condition",
		property: "A write whose outcome is unknown is repeated on its own condition only.",
		dir:      "recipes/atomic",
		in:       "(*DistributedAtomicValue).set",
		old:      "return v.cfg.client.Set(ctx, v.path, data, framework.WithVersion(version))",
		new:      "defer func() { version = framework.AnyVersion }(); return v.cfg.client.Set(ctx, v.path, data, framework.WithVersion(version))",
		pkg:      "./recipes/atomic",
		test:     "^TestALostReplyIsNeverCountedTwice$",
	},
	{
		name:     "shared-older-value",
		property: "The copy of a shared value only goes forward.",
		dir:      "recipes/shared",
		in:       "(*SharedValue).learn",
		old:      "value.Zxid > v.current.Zxid",
		new:      "value.Zxid != v.current.Zxid",
		pkg:      "./recipes/shared",
		test:     "^TestAnOlderValueNeverReplacesANewerOne$",
	},
}
