package main

var checkerMutants = []mutant{
	{
		name:     "checker-token-unchecked",
		property: "The model of a mutex refuses a token that is not above those before.",
		dir:      "testing/checker",
		in:       "Mutex",
		old:      "return len(s.holds) == 0 && op.Token > s.newest\n",
		new:      "return len(s.holds) == 0\n",
		pkg:      "./testing/checker",
		test:     "^TestModels$",
	},
	{
		name:     "checker-writer-among-readers",
		property: "The model of a read/write lock refuses a writer while there are readers.",
		dir:      "testing/checker",
		in:       "ReadWrite",
		old:      "return len(s.holds) == 0 && op.Token > max(",
		new:      "return op.Token > max(",
		pkg:      "./testing/checker",
		test:     "^TestModels$",
	},
	{
		name:     "checker-release-of-nothing",
		property: "No model lets go what is not held.",
		dir:      "testing/checker",
		in:       "state.released",
		old:      "if i < 0 || s.holds[i].n < op.permits() {\n		return s, false",
		new:      "if i < 0 || s.holds[i].n < op.permits() {\n		return s, true",
		pkg:      "./testing/checker",
		test:     "^TestModels$",
	},
}
