package web

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// BenchmarkFirstPage measures how long the first pages of a site of 10,000 nodes take, over HTTPS on
// loopback with one viewer, and how many bytes the overview has. What the daemon says is made anew
// whenever the API asks for it, as by an engine.
func BenchmarkFirstPage(b *testing.B) {
	address, as := onNetwork(b, &fleet{said: "as it says", reason: "Installs generation 2", size: 9_994})
	ana := as("ana@example.org")
	for b.Loop() {
		for name, path := range map[string]string{"first-page": "/sites/berlin", "nodes-page": "/sites/berlin/nodes", "node-page": "/sites/berlin/nodes/web-1"} {
			var took []time.Duration
			size := 0
			for range 100 {
				began := time.Now()
				status, text, _ := sends(b, ana, "GET", address+path, "")
				took = append(took, time.Since(began))
				if size = len(text); status != 200 {
					b.Fatalf("%s: %d %s", path, status, text)
				}
			}
			slices.Sort(took)
			fmt.Printf("bench: web/%s-p50-ms %.1f ms\nbench: web/%[1]s-p99-ms %.1[3]f ms\nbench: web/%[1]s-kb %.1[4]f KB\n", name,
				float64(took[len(took)/2].Microseconds())/1000, float64(took[len(took)*99/100].Microseconds())/1000, float64(size)/1024)
		}
	}
}
