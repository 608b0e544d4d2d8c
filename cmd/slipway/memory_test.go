package main

import (
	"testing"

	"golang.org/x/sys/unix"
)

// The memory of a process that holds secrets is read by no other one, and is in no core.
func TestHideMemory(t *testing.T) {
	before, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, uintptr(before), 0, 0, 0); err != nil {
			t.Error(err)
		}
	})
	if err := hideMemory(); err != nil {
		t.Fatal(err)
	}
	var core unix.Rlimit
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil || dumpable != 0 {
		t.Errorf("dumpable is %d, %v", dumpable, err)
	}
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &core); err != nil || core != (unix.Rlimit{}) {
		t.Errorf("the limit of cores is %+v, %v", core, err)
	}
}
