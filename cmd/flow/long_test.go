package main

import "flag"

// long makes the tests that have a long form take it: go test ./cmd/flow -run Crash -long
var long = flag.Bool("long", false, "run the long form of tests that have one")
