package libvirt

import "context"

// Test is what a hypervisor lives in: a testing.TB, or a program that shows one to
// a person. Cleanup's functions are called when it is over, the last one first,
// and Fatal, Fatalf and Skip do not return.
type Test interface {
	Helper()
	Context() context.Context
	TempDir() string
	Cleanup(func())

	Error(...any)
	Errorf(string, ...any)
	Fatal(...any)
	Fatalf(string, ...any)
	Skip(...any)
	Failed() bool
	Logf(string, ...any)
}
