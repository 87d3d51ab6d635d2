//go:build race

package main

// raceEnabled says that the race detector is there, which takes several times the memory.
const raceEnabled = true
