package tests

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// patience bounds every wait of a script.
const patience = 60 * time.Second

// TestScripts runs script/*.txtar on the built programs. Beside testscript's
// own commands the scripts use:
//
//	site            copies site-example to ./site with free ports and a quick
//	                pace, makes ./site.git from it, and ./cred with accounts
//	lab [FLAG…]     starts slipway-lab for ./site
//	daemon [FLAG…]  starts slipway run for ./site.git, its log in ./daemon.log
//	stop            ends the daemon as systemd would
//	push MESSAGE    commits and pushes what is in ./site
//	await RE CMD…   runs a command until what it prints matches
//	writes N        holds the lab's log to N requests that ask for a change
//	bomb FILE       writes CUE that nests 4 MB deep
func TestScripts(t *testing.T) {
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", bin, "./cmd/slipway", "./cmd/slipway-lab")
	build.Dir = ".."
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	example, err := filepath.Abs("../site-example")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "script", RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("SLIPWAY_STATE", filepath.Join(env.WorkDir, "state"))
			env.Setenv("EXAMPLE", example)
			for _, v := range []string{"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.org", "GIT_CONFIG_GLOBAL=/dev/null"} {
				name, value, _ := strings.Cut(v, "=")
				env.Setenv(name, value)
			}
			env.Values["stage"] = &stage{}
			env.Defer(func() { env.Values["stage"].(*stage).end() })
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"site": siteCmd, "lab": labCmd, "daemon": daemonCmd, "stop": stopCmd,
			"push": pushCmd, "await": awaitCmd, "writes": writesCmd, "bomb": bombCmd,
		},
	})
}

// stage is what runs beside a script.
type stage struct{ lab, daemon *exec.Cmd }

func (s *stage) end() {
	for _, c := range []*exec.Cmd{s.daemon, s.lab} {
		if c != nil {
			c.Process.Signal(syscall.SIGTERM)
			c.Wait()
		}
	}
}

func stageOf(ts *testscript.TestScript) *stage { return ts.Value("stage").(*stage) }

func siteCmd(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Check(os.CopyFS(ts.MkAbs("site"), os.DirFS(ts.Getenv("EXAMPLE"))))
	replace(ts, "site/lab.cue", map[string]string{"bmc": freePort(ts), "ssh": freePort(ts), "images": freePort(ts)})
	replace(ts, "site/site.cue", map[string]string{"pollEvery": `"300ms"`, "observeEvery": `"1s"`, "reportEvery": `"500ms"`})
	_, key, err := ed25519.GenerateKey(rand.Reader)
	ts.Check(err)
	block, err := ssh.MarshalPrivateKey(key, "")
	ts.Check(err)
	ts.Check(os.Mkdir(ts.MkAbs("cred"), 0o700))
	ts.Check(os.WriteFile(ts.MkAbs("cred/bmc"), []byte("hosts: 127.83.0.0/16\nusername: admin\n\nscript-password\n"), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs("cred/os"), fmt.Appendf(nil, "hosts: 127.84.0.0/16\nusername: admin\n\n%s", pem.EncodeToMemory(block)), 0o600))
	git(ts, "-C", "site", "init", "-q", "-b", "main")
	git(ts, "-C", "site", "add", "-A")
	git(ts, "-C", "site", "commit", "-q", "-m", "the site")
	git(ts, "clone", "-q", "--bare", "site", "site.git")
	git(ts, "-C", "site", "remote", "add", "origin", "../site.git")
}

func git(ts *testscript.TestScript, args ...string) {
	ts.Check(ts.Exec("git", args...))
}

func freePort(ts *testscript.TestScript) string {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	ts.Check(err)
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// replace gives fields of a CUE file, each on its own line, other values.
func replace(ts *testscript.TestScript, file string, values map[string]string) {
	text := []byte(ts.ReadFile(file))
	for field, v := range values {
		re := regexp.MustCompile(`(?m)^(\s*` + field + `:\s*)\S+$`)
		if !re.Match(text) {
			ts.Fatalf("%s sets no %s", file, field)
		}
		text = re.ReplaceAll(text, []byte("${1}"+v))
	}
	ts.Check(os.WriteFile(ts.MkAbs(file), text, 0o644))
}

func start(ts *testscript.TestScript, log string, name string, args ...string) *exec.Cmd {
	out, err := os.OpenFile(ts.MkAbs(log), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	ts.Check(err)
	defer out.Close()
	path, err := exec.LookPath(name)
	if err != nil {
		path = filepath.Join(strings.Split(ts.Getenv("PATH"), string(os.PathListSeparator))[0], name)
	}
	c := exec.Command(path, args...)
	c.Dir, c.Stdout, c.Stderr = ts.MkAbs("."), out, out
	c.Env = append(os.Environ(), "SLIPWAY_STATE="+ts.Getenv("SLIPWAY_STATE"))
	ts.Check(c.Start())
	return c
}

// until waits for a condition.
func until(ts *testscript.TestScript, what string, ok func() bool) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(end) {
			ts.Fatalf("never: %s\n%s", what, logs(ts))
		}
	}
}

func logs(ts *testscript.TestScript) string {
	text, err := os.ReadFile(ts.MkAbs("daemon.log"))
	if err != nil {
		return ""
	}
	return "daemon.log ends:\n" + string(text[max(0, len(text)-1500):])
}

func labCmd(ts *testscript.TestScript, _ bool, args []string) {
	stageOf(ts).lab = start(ts, "lab.log", "slipway-lab", append([]string{"run", "--site", "site", "--credentials", "cred",
		"--control", "lab.sock", "--speed", "60"}, args...)...)
	until(ts, "the lab is ready", func() bool {
		text, err := os.ReadFile(ts.MkAbs("lab.log"))
		return err == nil && bytes.Contains(text, []byte("machines ready"))
	})
}

func daemonCmd(ts *testscript.TestScript, _ bool, args []string) {
	s := stageOf(ts)
	s.daemon = start(ts, "daemon.log", "slipway", append([]string{"run", "--repo", ts.MkAbs("site.git"), "--credentials", "cred"}, args...)...)
	until(ts, "the daemon answers", func() bool {
		_, err := control.Dial(control.Socket(ts.Getenv("SLIPWAY_STATE"))).Report("")
		return err == nil
	})
}

func stopCmd(ts *testscript.TestScript, _ bool, _ []string) {
	s := stageOf(ts)
	ts.Check(s.daemon.Process.Signal(syscall.SIGTERM))
	err := s.daemon.Wait()
	s.daemon = nil
	ts.Check(err)
}

func pushCmd(ts *testscript.TestScript, _ bool, args []string) {
	git(ts, "-C", "site", "add", "-A")
	git(ts, "-C", "site", "commit", "-q", "-m", strings.Join(args, " "))
	git(ts, "-C", "site", "push", "-q", "origin", "main")
}

func awaitCmd(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: await RE CMD…")
	}
	re := regexp.MustCompile("(?s)" + args[0])
	last := ""
	end := time.Now().Add(patience)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		err := ts.Exec(args[1], args[2:]...)
		last = ts.ReadFile("stdout")
		if re.MatchString(last) {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("never matched %s: %v\n%s\n%s", args[0], err, last, logs(ts))
		}
	}
}

func writesCmd(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(ts.Exec("slipway-lab", "calls", "--writes", "--json", "--control", "lab.sock"))
	var calls []lab.Call
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &calls))
	if got := strconv.Itoa(len(calls)); (got == args[0]) == neg {
		ts.Fatalf("%s requests asked for a change: %+v", got, calls)
	}
}

func bombCmd(ts *testscript.TestScript, _ bool, args []string) {
	text := "package example\n\n" + strings.Repeat("a: ", 4_000_000/3) + "1\n"
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o644))
}
