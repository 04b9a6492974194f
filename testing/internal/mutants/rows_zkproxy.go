package main

var zkproxyMutants = []mutant{
	{
		name:     "zkproxy-cut-off-forgives",
		property: "After a request that is lost during CutOff no ping is answered.",
		dir:      "testing/zkproxy",
		in:       "(*link).pong",
		old:      "if f.Kind != Ping || l.mute {",
		new:      "if f.Kind != Ping {",
		pkg:      "./testing/zkproxy",
		test:     "^TestCutOffAnswersPings$",
	},
}
