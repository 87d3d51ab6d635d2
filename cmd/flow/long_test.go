package main

import "flag"

// long asks for the long forms of tests: go test ./cmd/flow -run Crash -long -v -timeout 60m
var long = flag.Bool("long", false, "the long forms of tests, which take minutes to an hour")

// seed repeats what a test made at random: each prints the one that it used.
var seed = flag.Uint64("seed", 0, "the seed of what tests make at random; 0: another one each time")
