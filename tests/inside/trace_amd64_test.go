package inside_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// Where the tracer writes, and what it takes away when it has killed: the words before
// a session's command.
const (
	writesFile = "/run/writes"
	prefixFile = "/run/prefix"
)

// write says which argument of a call names what it writes to, and how.
type write struct {
	name string
	path int // the argument with a path, -1 for none
	fd   int // the argument with a file, -1 for none
	// open is the argument with flags where the call writes only with some of them, -1
	// where it always does.
	open int
}

// writers are the calls of the kernel that change something that lasts.
var writers = map[uint64]write{
	1: {"write", -1, 0, -1}, 18: {"pwrite", -1, 0, -1}, 20: {"writev", -1, 0, -1}, 296: {"pwritev", -1, 0, -1}, 40: {"sendfile", -1, 0, -1}, 326: {"copy_file_range", -1, 2, -1},
	2: {"open", 0, -1, 1}, 257: {"openat", 1, -1, 2}, 85: {"creat", 0, -1, -1},
	82: {"rename", 1, -1, -1}, 264: {"renameat", 3, -1, -1}, 316: {"renameat2", 3, -1, -1}, 87: {"unlink", 0, -1, -1}, 263: {"unlinkat", 1, -1, -1}, 84: {"rmdir", 0, -1, -1},
	83: {"mkdir", 0, -1, -1}, 258: {"mkdirat", 1, -1, -1}, 86: {"link", 1, -1, -1}, 265: {"linkat", 3, -1, -1}, 88: {"symlink", 1, -1, -1}, 266: {"symlinkat", 2, -1, -1},
	90: {"chmod", 0, -1, -1}, 91: {"fchmod", -1, 0, -1}, 268: {"fchmodat", 1, -1, -1}, 452: {"fchmodat2", 1, -1, -1},
	92: {"chown", 0, -1, -1}, 93: {"fchown", -1, 0, -1}, 94: {"lchown", 0, -1, -1}, 260: {"fchownat", 1, -1, -1},
	76: {"truncate", 0, -1, -1}, 77: {"ftruncate", -1, 0, -1}, 285: {"fallocate", -1, 0, -1}, 132: {"utime", 0, -1, -1}, 235: {"utimes", 0, -1, -1}, 280: {"utimensat", 1, -1, -1},
	133: {"mknod", 0, -1, -1}, 259: {"mknodat", 1, -1, -1}, 188: {"setxattr", 0, -1, -1}, 189: {"lsetxattr", 0, -1, -1}, 190: {"fsetxattr", -1, 0, -1},
	165: {"mount", 1, -1, -1}, 166: {"umount2", 0, -1, -1}, 170: {"sethostname", 0, -1, -1}, 171: {"setdomainname", 0, -1, -1},
	164: {"settimeofday", -1, -1, -1}, 227: {"clock_settime", -1, -1, -1}, 175: {"init_module", -1, -1, -1}, 313: {"finit_module", -1, -1, -1},
}

const execve = 59

// task is a thread that is traced.
type task struct {
	within  bool   // it is in a call
	what    string // that the call writes, empty for none
	program string // that the call runs
}

// trace runs a command and notes each write of it and of its children, and each program
// that they run. Its arguments are the number of the write after which it kills, 0 for
// none; what it kills, "helper" or "all"; and the command.
func trace(args []string) int {
	runtime.LockOSThread()
	after, err := strconv.Atoi(args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	log, err := os.OpenFile(writesFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	cmd := exec.Command(args[2], args[3:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	os.Stdin.Close() // the end of the one input is the command's to see
	os.Stdout.Close()
	first := cmd.Process.Pid
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(first, &status, 0, nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	const options = syscall.PTRACE_O_TRACESYSGOOD | syscall.PTRACE_O_TRACEFORK | syscall.PTRACE_O_TRACEVFORK | syscall.PTRACE_O_TRACECLONE | syscall.PTRACE_O_TRACEEXEC
	if err := syscall.PtraceSetOptions(first, options); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	tasks := map[int]*task{first: {}}
	helper, writes, code := 0, 0, 0
	_ = syscall.PtraceSyscall(first, 0)
	for {
		pid, err := syscall.Wait4(-1, &status, syscall.WALL, nil)
		if err != nil { // nothing is left
			return code
		}
		t := tasks[pid]
		switch {
		case status.Exited() || status.Signaled():
			delete(tasks, pid)
			if pid == first {
				if code = status.ExitStatus(); status.Signaled() {
					code = 128 + int(status.Signal())
				}
			}
			continue
		case t == nil: // it begins, and its first stop is none of its own
			tasks[pid] = &task{}
			_ = syscall.PtraceSyscall(pid, 0)
			continue
		case status.StopSignal() == syscall.SIGTRAP|0x80:
			var r syscall.PtraceRegs
			if syscall.PtraceGetRegs(pid, &r) != nil {
				break // it was killed
			}
			if t.within = !t.within; t.within {
				t.what, t.program = begins(pid, r)
				break
			}
			if int64(r.Rax) < 0 {
				break
			}
			if t.program != "" {
				fmt.Fprintf(log, "exec %s\n", t.program)
				if name := strings.Fields(t.program)[0]; strings.HasPrefix(filepath.Base(name), "helper-") {
					helper = pid
				}
			}
			if t.what == "" || helper == 0 {
				break
			}
			writes++
			fmt.Fprintf(log, "%d %s\n", writes, t.what)
			if writes == after {
				os.Remove(prefixFile)
				_ = syscall.Kill(helper, syscall.SIGKILL)
				if args[1] == "all" {
					for other := range tasks {
						_ = syscall.Kill(other, syscall.SIGKILL)
					}
				}
			}
		case status.TrapCause() > 0 || status.StopSignal() == syscall.SIGTRAP:
			if status.TrapCause() == syscall.PTRACE_EVENT_EXEC {
				t.within = true // its end follows
			}
		default:
			_ = syscall.PtraceSyscall(pid, int(status.StopSignal()))
			continue
		}
		_ = syscall.PtraceSyscall(pid, 0)
	}
}

// begins tells of a call that begins what it writes, and which program it runs.
func begins(pid int, r syscall.PtraceRegs) (what, program string) {
	args := []uint64{r.Rdi, r.Rsi, r.Rdx, r.R10, r.R8, r.R9}
	if r.Orig_rax == execve {
		var words []string
		for at := r.Rsi; len(words) < 20; at += 8 {
			var word [8]byte
			if _, err := syscall.PtracePeekData(pid, uintptr(at), word[:]); err != nil {
				break
			}
			pointer := uint64(word[0]) | uint64(word[1])<<8 | uint64(word[2])<<16 | uint64(word[3])<<24 | uint64(word[4])<<32 | uint64(word[5])<<40 | uint64(word[6])<<48 | uint64(word[7])<<56
			if pointer == 0 {
				break
			}
			words = append(words, strconv.Quote(text(pid, pointer)))
		}
		return "", text(pid, r.Rdi) + " " + strings.Join(words, " ")
	}
	w, is := writers[r.Orig_rax]
	if !is {
		return "", ""
	}
	if w.open >= 0 && args[w.open]&(syscall.O_CREAT|syscall.O_TRUNC) == 0 {
		return "", ""
	}
	at := ""
	switch {
	case w.path >= 0:
		at = text(pid, args[w.path])
	case w.fd >= 0:
		at, _ = os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, int32(args[w.fd])))
		if !strings.HasPrefix(at, "/") {
			return "", "" // a pipe or a socket
		}
	}
	if strings.HasPrefix(at, "/dev/") || strings.HasPrefix(at, "/memfd:") || strings.HasPrefix(at, "/proc/") && !strings.HasPrefix(at, "/proc/sys/") {
		return "", ""
	}
	return w.name + " " + at, ""
}

// text is what the memory of a task has at an address, up to its zero byte.
func text(pid int, at uint64) string {
	var all []byte
	for len(all) < 4096 {
		var word [8]byte
		if n, err := syscall.PtracePeekData(pid, uintptr(at)+uintptr(len(all)), word[:]); err != nil || n == 0 {
			break
		}
		for _, b := range word {
			if b == 0 {
				return string(all)
			}
			all = append(all, b)
		}
	}
	return string(all)
}
