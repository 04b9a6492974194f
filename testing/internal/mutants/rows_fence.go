package main

var fenceMutants = []mutant{
	{
		name:     "fence-older-token",
		property: "A token older than the newest seen is refused.",
		file:     "recipes/fence/register.go",
		old:      "case token < r.newest:",
		new:      "case token < r.newest-1:",
		pkg:      "./recipes/fence",
		test:     "^TestAccept$",
	},
	{
		name:     "fence-older-work-goes-on",
		property: "What is done with a newer token begins when all that was begun with older ones has ended.",
		file:     "recipes/fence/register.go",
		old:      "if r.count == 0 || r.inside == token {",
		new:      "if true {",
		pkg:      "./recipes/fence",
		test:     "^TestANewerTokenWaitsForOlderWork$",
	},
}
