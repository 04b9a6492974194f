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
}
