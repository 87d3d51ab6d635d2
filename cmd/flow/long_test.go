package main

import "flag"

// long makes the tests that have a long form take it: go test ./cmd/flow -run Crash -long -v -timeout 60m
var long = flag.Bool("long", false, "run the long form of tests that have one")

// seed repeats what a test made at random: each prints the one that it used.
var seed = flag.Uint64("seed", 0, "the seed of what tests make at random; 0: another one each time")
