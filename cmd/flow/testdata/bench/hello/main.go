// Command hello is the floor of BenchmarkStartup: the least that a Go program does.
package main

import "fmt"

func main() { fmt.Println("hello") }
