// Package confine takes from a process what it does not need for reading and writing what it
// has open already: files, the network, other processes and programs.
package confine

import "errors"

// ErrUnable is wrapped when the kernel does not confine this process.
var ErrUnable = errors.New("cannot confine this process")
