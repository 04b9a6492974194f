package main

var fenceMutants = []mutant{
	{
		name:     "fence-older-token",
		property: "A token older than the newest seen is refused.",
		dir:      "recipes/fence",
		in:       "(*Register).accept",
		old:      "case token < r.newest:",
		new:      "case token < r.newest-1:",
		pkg:      "./recipes/fence",
		test:     "^TestAccept$",
	},
	{
		name:     "fence-older-work-goes-on",
		property: "What is done with a newer token begins when all that was begun with older ones has ended.",
		dir:      "recipes/fence",
		in:       "(*Register).enter",
		old:      "if r.count == 0 || r.inside == token {",
		new:      "if true {",
		pkg:      "./recipes/fence",
		test:     "^TestANewerTokenWaitsForOlderWork$",
	},
}
