//go:build amd64 || arm64

package confine

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Self confines all threads of this process permanently. From then on a system call that opens,
// creates or names a file, a socket, a process or a program fails with EPERM. Files that are open
// can still be read and written, and Go's runtime keeps its memory, threads, signals and clocks.
// The process can no longer get executable memory.
//
// The kernel enforces this with a system call filter (seccomp(2)). It also sets no_new_privs
// (PR_SET_NO_NEW_PRIVS(2const)), without which only root may set a filter. An error wraps
// ErrUnable, and leaves the process unconfined.
func Self() error {
	filter, err := bpf.Assemble(program())
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnable, err)
	}
	runtime.LockOSThread() // no_new_privs is the thread's that asks for the filter
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("%w: %w", ErrUnable, err)
	}
	// The kernel also sets no_new_privs on the threads that it puts under the filter.
	fprog := unix.SockFprog{Len: uint16(len(filter)), Filter: (*unix.SockFilter)(unsafe.Pointer(&filter[0]))}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&fprog)))
	runtime.KeepAlive(filter)
	switch {
	case errno != 0:
		return fmt.Errorf("%w: the system call seccomp fails: %w: allow it in SystemCallFilter= of the service, or in the profile of the container", ErrUnable, errno)
	case thread != 0:
		return fmt.Errorf("%w: thread %d has a filter of its own", ErrUnable, thread)
	}
	return nil
}

// free are the system calls that are allowed with any arguments. Their arguments can name only what
// belongs to this process or is open already.
var free = []uint32{
	// Open files.
	unix.SYS_READ, unix.SYS_READV, unix.SYS_PREAD64, unix.SYS_WRITE, unix.SYS_WRITEV, unix.SYS_PWRITE64,
	unix.SYS_CLOSE, unix.SYS_FSTAT, unix.SYS_LSEEK, unix.SYS_SPLICE, unix.SYS_SENDFILE, unix.SYS_COPY_FILE_RANGE,
	unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2, unix.SYS_PIPE2, unix.SYS_PPOLL,
	// Memory; the calls that map it are below.
	unix.SYS_MUNMAP, unix.SYS_MADVISE, unix.SYS_MINCORE, unix.SYS_MREMAP, unix.SYS_BRK,
	// Threads and their end.
	unix.SYS_FUTEX, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ,
	unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
	// Signals to this process.
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK, unix.SYS_RESTART_SYSCALL,
	// Clocks, random numbers, resource usage and limits.
	unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_GETTIMEOFDAY, unix.SYS_GETRANDOM, unix.SYS_GETRUSAGE,
	unix.SYS_GETRLIMIT, unix.SYS_SETRLIMIT,
}

// condition is a constraint on one argument of a system call.
type condition struct {
	call, argument uint32
	// mask selects the bits of the argument that must equal value.
	mask, value uint32
}

// bounded returns the system calls that are allowed only with certain arguments. The upper halves
// of the arguments do not matter: the kernel takes each of these as an int, or has no flags there.
func bounded() []condition {
	return []condition{
		{unix.SYS_MMAP, 2, unix.PROT_EXEC, 0},
		{unix.SYS_MPROTECT, 2, unix.PROT_EXEC, 0},
		{unix.SYS_CLONE, 0, unix.CLONE_THREAD, unix.CLONE_THREAD},
		// The runtime interrupts its own threads by signals.
		{unix.SYS_TGKILL, 0, ^uint32(0), uint32(unix.Getpid())},
		// The limits of this process only: pid 0 means itself.
		{unix.SYS_PRLIMIT64, 0, ^uint32(0), 0},
	}
}

// The offsets in struct seccomp_data (linux/seccomp.h).
const (
	offsetCall         = 0
	offsetArchitecture = 4
	offsetArguments    = 16
)

// architectures are the architecture numbers that a filter sees (linux/audit.h).
var architectures = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// program returns the filter. The first matching return decides.
func program() []bpf.Instruction {
	var (
		allow  = bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
		refuse = bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)}
		absent = bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)}
		kill   = bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS}
	)
	p := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetArchitecture, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: architectures[runtime.GOARCH], SkipTrue: 1},
		kill,
		bpf.LoadAbsolute{Off: offsetCall, Size: 4},
	}
	for _, call := range free {
		p = append(p, bpf.JumpIf{Cond: bpf.JumpEqual, Val: call, SkipFalse: 1}, allow)
	}
	// The C library creates threads by clone3, whose flags a filter cannot see. If the kernel lacks
	// clone3, it uses clone.
	p = append(p, bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SYS_CLONE3, SkipFalse: 1}, absent)
	for _, c := range bounded() {
		p = append(p,
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: c.call, SkipFalse: 5},
			bpf.LoadAbsolute{Off: offsetArguments + 8*c.argument, Size: 4}, // little-endian: the lower half
			bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: c.mask},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: c.value, SkipFalse: 1},
			allow,
			refuse,
		)
	}
	return append(p, refuse)
}
