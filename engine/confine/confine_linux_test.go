//go:build amd64 || arm64

package confine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// asConfined makes the test binary a process that confines itself and then tries one thing.
const asConfined = "confined-as-a-process-of-the-tests"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == asConfined {
		os.Exit(confined(os.Args[2], os.Args[3:]))
	}
	os.Exit(m.Run())
}

// The codes with which a confined process ends.
const (
	didIt = iota
	refused
	otherwise
)

// confined confines this process, tries something by its name, and gives the code to exit with.
func confined(what string, args []string) int {
	try, ok := tries[what]
	if !ok {
		fmt.Fprintln(os.Stderr, "nobody knows how to try "+what)
		return otherwise
	}
	several(func() {}) // threads that are there before
	if os.Getenv("FREE") == "" {
		if err := Self(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return otherwise
		}
	}
	switch err := try(args); {
	case err == nil:
		return didIt
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.ENOSYS):
		return refused
	default:
		fmt.Fprintln(os.Stderr, err)
		return otherwise
	}
}

// several does something in several threads at once.
func several(do func()) {
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			runtime.LockOSThread() // the thread ends with it
			do()
		})
	}
	all.Wait()
}

// call makes a system call.
func call(number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, errno := unix.RawSyscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
		return errno
	}
	return nil
}

var nowhere = [1]byte{}

// tries are what somebody may try who has made this process run code of theirs. Each does what
// it says in a process that is not confined.
var tries = map[string]func(args []string) error{
	"read a file":  func(args []string) error { _, err := os.ReadFile(args[0]); return err },
	"write a file": func(args []string) error { return os.WriteFile(args[0]+".new", nil, 0o600) },
	"list a folder": func(args []string) error {
		_, err := os.ReadDir("/")
		return err
	},
	"see whether a file is there": func(args []string) error { _, err := os.Stat(args[0]); return err },
	"remove a file":               func(args []string) error { return os.Remove(args[0]) },
	"change a mode":               func(args []string) error { return os.Chmod(args[0], 0o666) },
	"go to a folder":              func(args []string) error { return os.Chdir("/") },
	"connect by TCP":              func(args []string) error { return connect("tcp", args[1]) },
	"send by UDP":                 func(args []string) error { return connect("udp", args[1]) },
	"connect to a socket":         func(args []string) error { return connect("unix", args[2]) },
	"listen": func([]string) error {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err == nil {
			l.Close()
		}
		return err
	},
	"make a pair of sockets": func([]string) error {
		_, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		return err
	},
	"run a program":     func([]string) error { return exec.Command("/bin/true").Run() },
	"become a program":  func([]string) error { return unix.Exec("/bin/true", []string{"true"}, nil) },
	"fork":              func([]string) error { return fork(uintptr(unix.SIGCHLD)) },
	"signal its parent": func([]string) error { return unix.Kill(unix.Getppid(), 0) },
	"signal a thread of its parent": func([]string) error {
		return unix.Tgkill(unix.Getppid(), unix.Getppid(), 0)
	},
	"trace its parent": func([]string) error {
		err := unix.PtraceSeize(unix.Getppid())
		if errors.Is(err, unix.EPERM) && os.Getenv("FREE") != "" {
			return nil // some hosts let nobody
		}
		return err
	},
	"read the memory of its parent": func([]string) error {
		to := make([]byte, 8)
		_, err := unix.ProcessVMReadv(unix.Getppid(), []unix.Iovec{{Base: &to[0], Len: 8}}, []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&nowhere)), Len: 1}}, 0)
		if errors.Is(err, unix.EFAULT) || os.Getenv("FREE") != "" {
			return nil
		}
		return err
	},
	"bound another process": func([]string) error {
		return unix.Prlimit(unix.Getppid(), unix.RLIMIT_CPU, nil, &unix.Rlimit{})
	},
	"have memory that can run": func([]string) error {
		_, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_ANON|unix.MAP_PRIVATE)
		return err
	},
	"make memory run": func([]string) error {
		m, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			return fmt.Errorf("get memory: %w", unix.ENOMEM)
		}
		return unix.Mprotect(m, unix.PROT_READ|unix.PROT_EXEC)
	},
	"have a file in memory": func([]string) error { _, err := unix.MemfdCreate("x", 0); return err },
	"open by openat2": func(args []string) error {
		_, err := unix.Openat2(unix.AT_FDCWD, args[0], &unix.OpenHow{Flags: unix.O_RDONLY})
		return err
	},
	"have a ring for input and output": func([]string) error {
		params := [120]byte{}
		if err := call(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params))); err != nil && os.Getenv("FREE") == "" {
			return err
		}
		return nil
	},
	"have a user namespace": func([]string) error {
		if err := call(unix.SYS_UNSHARE, unix.CLONE_NEWUTS); err != nil && os.Getenv("FREE") == "" {
			return err
		}
		return nil
	},
	"have its core dumped": func([]string) error { return unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) },
	"change its user":      func([]string) error { return call(unix.SYS_SETUID, uintptr(os.Getuid())) },
	"read from all threads": func(args []string) error {
		var mu sync.Mutex
		var all []error
		several(func() {
			_, err := os.ReadFile(args[0])
			mu.Lock()
			defer mu.Unlock()
			all = append(all, err)
		})
		for _, err := range all {
			if (err == nil) != (all[0] == nil) {
				return fmt.Errorf("threads differ: %v", all)
			}
		}
		return all[0]
	},
	"make C's threads": func([]string) error {
		// The arguments mean nothing; no kernel makes a thread of them.
		if err := call(unix.SYS_CLONE3, 0, 0); errors.Is(err, unix.ENOSYS) || os.Getenv("FREE") == "" {
			return err
		}
		return nil
	},
	"work": func(args []string) error {
		megabytes, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		several(func() {
			var hold [][]byte
			for i := range megabytes {
				hold = append(hold, bytes.Repeat([]byte{byte(i)}, 1<<20))
				if i%8 == 0 {
					hold = hold[:0]
				}
			}
			runtime.KeepAlive(hold)
		})
		runtime.GC()
		debug.FreeOSMemory()
		timer := time.NewTimer(time.Millisecond)
		<-timer.C
		var bound unix.Rlimit
		if err := errors.Join(unix.Getrlimit(unix.RLIMIT_DATA, &bound), unix.Setrlimit(unix.RLIMIT_DATA, &bound)); err != nil {
			return err
		}
		_, err = io.Copy(os.Stdout, os.Stdin)
		return err
	},
	"crash": func([]string) error {
		go func() { panic("a fault of the program") }()
		select {}
	},
}

// work are the names of what a confined process has to be able to do.
var work = []string{"work", "crash"}

// fork makes a process, which ends at once.
func fork(flags uintptr) error {
	child, _, errno := unix.RawSyscall6(unix.SYS_CLONE, flags, 0, 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	if child == 0 {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	return nil
}

func connect(network, address string) error {
	c, err := net.DialTimeout(network, address, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte("x"))
	return err
}

// process runs a process of the tests, and gives the code with which it ended and what it said.
func process(t *testing.T, env []string, stdin io.Reader, args ...string) (int, string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{asConfined}, args...)...)
	cmd.Env = env
	cmd.Stdin = stdin
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), said.String()
}

// TestConfined tries each thing in a process that is confined, and in one that is not, where it
// has to succeed: a try that cannot succeed proves nothing.
func TestConfined(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	path := t.TempDir() + "/s"
	socket, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	for what := range tries {
		if slices.Contains(work, what) {
			continue
		}
		t.Run(strings.ReplaceAll(what, " ", "_"), func(t *testing.T) {
			file := t.TempDir() + "/secret"
			for _, env := range [][]string{{"FREE=yes"}, {}} {
				if err := os.WriteFile(file, []byte("secret"), 0o600); err != nil {
					t.Fatal(err)
				}
				code, said := process(t, env, nil, what, file, tcp.Addr().String(), path)
				if want := map[bool]int{true: refused, false: didIt}[len(env) == 0]; code != want {
					t.Errorf("confined: %v: ended with %d, not %d: %s", len(env) == 0, code, want, said)
				}
			}
		})
	}
}

// TestConfinedUser: a user without any rights confines itself, too.
func TestConfinedUser(t *testing.T) {
	if os.Getuid() != 0 && os.Getenv("CI") == "" {
		t.Skip("only root can be another user")
	}
	dir, err := os.MkdirTemp("", "confine")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	text, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = errors.Join(os.Chmod(dir, 0o755), os.WriteFile(dir+"/test", text, 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 20 { // threads are not the same each time
		cmd := exec.Command(dir+"/test", asConfined, "read a file", "/dev/null")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		cmd.Env = []string{}
		if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != refused {
			t.Fatalf("ended with %d: %s", cmd.ProcessState.ExitCode(), out)
		}
	}
}

// TestWorkGoesOn: memory, threads, the collector, timers, bounds and open files are there still,
// and a fault shows where it is.
func TestWorkGoesOn(t *testing.T) {
	if code, said := process(t, nil, strings.NewReader("what came in"), "work", "64"); code != didIt || said != "what came in" {
		t.Errorf("ended with %d, and said %q", code, said)
	}
	if code, said := process(t, nil, nil, "crash"); code != 2 || !strings.Contains(said, "panic: a fault of the program") || !strings.Contains(said, "goroutine") {
		t.Errorf("ended with %d, and said %q", code, said)
	}
}
