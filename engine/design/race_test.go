//go:build race

package design

// racing says whether the race detector is on.
const racing = true
