// Command observer says, for each line that it reads, what time it is, how long it runs, and how long a write to the
// disk took: in nanoseconds.
package main

import (
	"bufio"
	"fmt"
	"os"
	"time"
)

func main() {
	began := time.Now()
	f, err := os.CreateTemp("", "observer")
	if err != nil {
		panic(err)
	}
	defer os.Remove(f.Name())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		before := time.Now()
		if err := f.Sync(); err != nil {
			panic(err)
		}
		now := time.Now()
		fmt.Println(now.UnixNano(), now.Sub(began).Nanoseconds(), now.Sub(before).Nanoseconds())
	}
}
