//go:build race

package engine_test

// racing says whether the race detector is on.
const racing = true
