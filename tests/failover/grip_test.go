package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The time of day that one process sees, and how long its disk takes, are changed in its memory, while the program is the one that
// users run and no clock of the host is touched. Go asks for the time through a pointer to a function of the kernel's (vdso),
// and for all else by one function. Both are led over code of ours, which is written over the runtime's first
// function: that one has done its work. It is for amd64.
//
// What the kernel stamps, as the times of files, and programs that the process starts go by the right time.
const gripped = "amd64"

// anchors are where things are in the program.
type anchors struct{ room, clock, syscall uint64 }

func findAnchors(t *testing.T, program string) (a anchors) {
	t.Helper()
	f, err := elf.Open(program)
	check(t, err)
	defer f.Close()
	all, err := f.Symbols()
	check(t, err)
	for _, s := range all {
		switch s.Name {
		case "runtime.rt0_go.abi0":
			a.room = s.Value
		case "runtime.vdsoClockgettimeSym":
			a.clock = s.Value
		case "internal/runtime/syscall/linux.Syscall6":
			a.syscall = s.Value
		}
	}
	if a.room == 0 || a.clock == 0 || a.syscall == 0 {
		t.Fatalf("this Go has another runtime than these tests know: %+v", a)
	}
	return a
}

// Where things are in the room: the code for the clock and for system calls, and what they read.
const (
	clockCode   = 0
	syscallCode = 64
	clockIs     = 128 // the kernel's function
	clockOff    = 136 // seconds
	diskDelay   = 144 // seconds and nanoseconds
	roomSize    = 160
)

// syscallBegins is how the function for system calls begins: MOVQ SI, R10; MOVQ DI, DX.
var syscallBegins = []byte{0x49, 0x89, 0xf2, 0x48, 0x89, 0xfa}

// code is what is written into the room. With a clock other than CLOCK_REALTIME, and a system call other than fsync and fdatasync, it
// goes on as before.
func (a anchors) code(clock uint64, off, delay time.Duration) []byte {
	rel := func(next, to int) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(int32(to-next))) }
	text := make([]byte, roomSize)
	copy(text[clockCode:], slices.Concat(
		[]byte{0x85, 0xff, 0x74, 0x06},                 // test edi, edi; je +6
		[]byte{0xff, 0x25}, rel(clockCode+10, clockIs), // jmp [clockIs]
		[]byte{0x56, 0xff, 0x15}, rel(clockCode+17, clockIs), // push rsi; call [clockIs]
		[]byte{0x5e, 0x48, 0x8b, 0x0d}, rel(clockCode+25, clockOff), // pop rsi; mov rcx, [clockOff]
		[]byte{0x48, 0x01, 0x0e, 0x31, 0xc0, 0xc3}, // add [rsi], rcx; xor eax, eax; ret
	))
	copy(text[syscallCode:], slices.Concat(
		[]byte{0x83, 0xf8, syscall.SYS_FSYNC, 0x74, 0x05, 0x83, 0xf8, syscall.SYS_FDATASYNC, 0x75, 0x1a}, // cmp eax, …; je +5; cmp eax, …; jne +26
		[]byte{0x50, 0x51, 0x57, 0x56, 0x48, 0x8d, 0x3d}, rel(syscallCode+21, diskDelay),                 // push rax, rcx, rdi, rsi; lea rdi, [diskDelay]
		[]byte{0x31, 0xf6, 0xb8, syscall.SYS_NANOSLEEP, 0, 0, 0, 0x0f, 0x05, 0x90, 0x5e, 0x5f, 0x59, 0x58, 0x90}, // xor esi, esi; mov eax, …; syscall; pop rsi, rdi, rcx, rax
		syscallBegins, []byte{0xe9}, rel(int(a.room)+syscallCode+47, int(a.syscall)+len(syscallBegins)), // jmp
	))
	binary.LittleEndian.PutUint64(text[clockIs:], clock)
	binary.LittleEndian.PutUint64(text[clockOff:], uint64(int64(off/time.Second)))
	binary.LittleEndian.PutUint64(text[diskDelay:], uint64(delay/time.Second))
	binary.LittleEndian.PutUint64(text[diskDelay+8:], uint64(delay%time.Second))
	return text
}

// grip has the process see a clock that is off, and a disk that takes longer. It stands still meanwhile.
func (a anchors) grip(pid int, off, delay time.Duration) error {
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	for tries := 0; ; tries++ {
		if err := a.stands(pid); err == nil {
			break
		} else if tries > 1000 {
			return err
		}
		_ = syscall.Kill(pid, syscall.SIGCONT)
		<-time.After(time.Millisecond)
	}
	defer func() { _ = syscall.Kill(pid, syscall.SIGCONT) }()
	word, begins := make([]byte, 8), make([]byte, len(syscallBegins))
	_, err = mem.ReadAt(word, int64(a.clock))
	if _, rerr := mem.ReadAt(begins, int64(a.syscall)); err != nil || rerr != nil {
		return errors.Join(err, rerr)
	}
	if clock := binary.LittleEndian.Uint64(word); clock != a.room {
		if !bytes.Equal(begins, syscallBegins) {
			return fmt.Errorf("system calls begin with % x: this Go has another runtime than these tests know", begins)
		}
		if _, err := mem.WriteAt(a.code(clock, off, delay), int64(a.room)); err != nil {
			return err
		}
		jump := append(binary.LittleEndian.AppendUint32([]byte{0xe9}, uint32(int32(int(a.room)+syscallCode-int(a.syscall)-5))), 0x90)
		_, err = mem.WriteAt(jump, int64(a.syscall))
		_, werr := mem.WriteAt(binary.LittleEndian.AppendUint64(nil, a.room), int64(a.clock))
		return errors.Join(err, werr)
	}
	_, err = mem.WriteAt(a.code(0, off, delay)[clockOff:], int64(a.room)+clockOff)
	return err
}

// stands stops a process, and makes sure that all its threads have stopped, and none within what is written over.
func (a anchors) stands(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	for range 500 {
		moves := false
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
		for _, thread := range threads {
			stat, _ := os.ReadFile(thread + "/stat")
			_, state, _ := strings.Cut(string(stat), ") ")
			if moves = moves || !strings.HasPrefix(state, "T"); moves {
				break
			}
			where, err := os.ReadFile(thread + "/syscall") // its last word is where the thread goes on
			if err != nil {
				return err
			}
			var pc uint64
			f := strings.Fields(string(where))
			if _, err := fmt.Sscanf(f[len(f)-1], "0x%x", &pc); err != nil || pc > a.syscall && pc < a.syscall+uint64(len(syscallBegins)) {
				return fmt.Errorf("thread at %s", where)
			}
		}
		if !moves && len(threads) > 0 {
			return nil
		}
		<-time.After(time.Millisecond)
	}
	return errors.New("the process does not stop")
}

// begun waits until a process runs a program, far enough to know the kernel's function for the time. It is false if it ended before.
func (a anchors) begun(pid int, program string) bool {
	for range 20000 {
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if err != nil {
			return false
		}
		if exe == program {
			word := make([]byte, 8)
			mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
			if err != nil {
				return false
			}
			_, err = mem.ReadAt(word, int64(a.clock))
			if mem.Close(); err == nil && binary.LittleEndian.Uint64(word) != 0 {
				return true
			}
		}
		<-time.After(time.Millisecond)
	}
	return false
}

// A process sees the clock and the disk that it is given, and its monotonic clock goes on. Others see nothing of it.
func TestGrip(t *testing.T) {
	if runtime.GOARCH != gripped || os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("CI has amd64, and root")
		}
		t.Skip("processes are gripped on amd64 only, by root")
	}
	program := t.TempDir() + "/observer"
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./testdata/observer")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), program)
	ask, err := cmd.StdinPipe()
	check(t, err)
	answers, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	a := findAnchors(t, program)
	if !a.begun(cmd.Process.Pid, program) {
		t.Fatal("the program ended")
	}
	ran := time.Duration(0)
	for _, is := range []struct{ off, disk time.Duration }{{}, {off: jump}, {disk: 1200 * time.Millisecond}, {off: -jump}, {-jump, 300 * time.Millisecond}, {}} {
		check(t, a.grip(cmd.Process.Pid, is.off, is.disk))
		before := time.Now()
		fmt.Fprintln(ask)
		var now, runs, took int64
		_, err := fmt.Fscan(answers, &now, &runs, &took)
		check(t, err)
		asked := time.Since(before)
		if off := time.Unix(0, now).Sub(before); off < is.off || off > is.off+asked {
			t.Errorf("off by %s, and it is to be %s", off, is.off)
		}
		if runs := time.Duration(runs); runs < ran || runs > ran+time.Minute {
			t.Errorf("ran for %s, and before for %s", runs, ran)
		}
		if took := time.Duration(took); took < is.disk || took > asked {
			t.Errorf("the disk took %s, and it is to be %s", took, is.disk)
		}
		ran = time.Duration(runs)
	}
	check(t, ask.Close())
	check(t, cmd.Wait())
}
