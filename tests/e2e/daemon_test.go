package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/record/recordtest"
)

// stopLimit is how long a daemon may take to end when it is asked to.
const stopLimit = 25 * time.Second

// program is slipway, helperFolder the folder with what it brings to systems. That is
// not beside the program: who wants it says so.
var program, helperFolder string

func TestMain(m *testing.M) {
	recordtest.RunMember()
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	// The daemons wait more than they work; an argument overrides it.
	if err := flag.Set("test.parallel", "6"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir, err := os.MkdirTemp("", "slipway-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program, helperFolder = filepath.Join(dir, "slipway"), filepath.Join(dir, "helpers")
	helper := filepath.Join(helperFolder, "slipway-helper-linux-"+runtime.GOARCH)
	if !built(buildEnv, append(buildFlags, "-o", program, "../../cmd/slipway")) || !built("CGO_ENABLED=0", []string{"build", "-o", helper, "../../cmd/slipway-helper"}) {
		return 1
	}
	return m.Run()
}

// built builds a program. It says on stderr why that did not work.
func built(env string, args []string) bool {
	build := exec.Command("go", args...)
	build.Env = append(os.Environ(), env)
	out, err := build.CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return err == nil
}

var addresses atomic.Int32

// ownAddress is a loopback address that no other daemon serves images at.
func ownAddress() string {
	n := int(addresses.Add(1))
	return fmt.Sprintf("127.%d.%d.%d:9480", 100+os.Getpid()%100, n/250, n%250+1)
}

// daemon is a running slipway.
type daemon struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // why it ended; read after ended is closed
}

// start starts a daemon on the town's state directory.
func (w *town) start() {
	w.t.Helper()
	w.startProgram(program)
}

// startProgram starts a daemon that is another program, with more in its
// environment.
func (w *town) startProgram(program string, env ...string) {
	w.t.Helper()
	log, err := os.OpenFile(w.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	check(w.t, err)
	defer log.Close()
	if w.images == "" {
		w.images = ownAddress()
	}
	d := &daemon{ended: make(chan struct{})}
	d.cmd = exec.Command(program, append([]string{"run", "--verbose", "--repo", w.path("site.git"), "--state", w.path("state"), "--credentials", w.path("cred"), "--artifact-listen", w.images}, w.flags...)...)
	d.cmd.Env = append(os.Environ(), env...)
	d.cmd.Stdout, d.cmd.Stderr = log, log
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	check(w.t, d.cmd.Start())
	go func() {
		d.err = d.cmd.Wait()
		close(d.ended)
	}()
	w.daemon = d
}

// kill ends the daemon as a power cut would: it does nothing more once this
// returns.
func (d *daemon) kill() {
	d.cmd.Process.Kill()
	<-d.ended
}

func (d *daemon) dead() bool {
	select {
	case <-d.ended:
		return true
	default:
		return false
	}
}

// stop ends the daemon as systemd would.
func (w *town) stop() {
	w.t.Helper()
	d := w.daemon
	check(w.t, d.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-d.ended:
	case <-time.After(stopLimit):
		d.kill()
		w.t.Fatalf("the daemon had to be killed after %s\n%s", stopLimit, w.logEnd())
	}
	if d.err != nil || strings.Contains(w.log(), "DATA RACE") { // also of a daemon that was killed
		w.t.Errorf("the daemon ended with %v\n%s", d.err, w.logEnd())
	}
}

// log is what the daemons of this town have printed.
func (w *town) log() string {
	w.t.Helper()
	text, err := os.ReadFile(w.path("log"))
	check(w.t, err)
	return string(text)
}

func (w *town) logEnd() string {
	text := w.log()
	if i := strings.Index(text, "DATA RACE"); i >= 0 {
		return text[i:]
	}
	return text[max(0, len(text)-3000):]
}
