// Package confine restricts a process to reading and writing what it has open already. The process
// loses access to files, the network, other processes and programs.
package confine

import "errors"

// ErrUnable is wrapped if the kernel cannot confine this process.
var ErrUnable = errors.New("cannot confine this process")
