package tests

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rogpeppe/go-internal/txtar"
	"golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/tests/lab"
	"github.com/slipway-gitops/slipway/tests/oidc"
	"github.com/slipway-gitops/slipway/tests/port"
)

// patience bounds every wait of a script.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	// The scripts wait more than they work; an argument overrides it.
	if err := flag.Set("test.parallel", "4"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestScripts runs script/*.txtar on the built programs. Beside testscript's
// own commands the scripts use:
//
//	site            copies site-example to ./site with free ports and a quick
//	                pace, makes ./site.git from it, and ./cred with accounts
//	lab [FLAG…]     starts slipway-lab for ./site, or for a fleet with --fleet
//	daemon [FLAG…]  starts slipway run for ./site.git, its log in ./daemon.log
//	follow [FLAG…]  starts slipway run with nothing but these flags
//	down            ends the daemon as systemd would
//	powercut        ends it at once
//	signal SITE SIG sends a signal to the process of one of several sites
//	push MESSAGE    commits and pushes what is in ./site
//	await RE CMD…   runs a command until what it prints matches
//	code N CMD…     runs a command that is to exit with N
//	json            holds what was printed last to one JSON value
//	writes N        holds the lab's log to N requests that ask for a change
//	bomb FILE N     writes CUE that nests N bytes deep
//	certs DIR       writes certificates of an authority, a server and persons
//	ports NAME…     sets each NAME to a port of loopback that is free
//	api             puts the URL of the daemon's --api into $API
//	collector       starts a collector of traces, and puts its URL into
//	                $COLLECTOR; then "collector away" and "collector back"
//	spans RE        waits for the traces that it took to match, as ./spans
//	page RE PATH    asks the daemon's --listen address for a page until its
//	                status and body match
//
// A line "exec … &w&" with "kill -INT w" and "wait w" is an interrupt that is
// to end well.
func TestScripts(t *testing.T) {
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", bin, "./cmd/slipway", "./cmd/slipway-lab", "./cmd/slipway-pkcs11")
	build.Dir = ".."
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	example, err := filepath.Abs("../site-example")
	if err != nil {
		t.Fatal(err)
	}
	noneSkipped(t)
	testscript.Run(t, testscript.Params{
		Files: ofThisPart(t), RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			s := &stage{bin: bin}
			env.Values["stage"] = s
			env.Defer(s.end)
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("SLIPWAY_STATE", filepath.Join(env.WorkDir, "state"))
			env.Setenv("EXAMPLE", example)
			env.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
			for _, who := range []string{"AUTHOR", "COMMITTER"} {
				env.Setenv("GIT_"+who+"_NAME", "A")
				env.Setenv("GIT_"+who+"_EMAIL", "a@example.org")
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"site": siteCmd, "lab": labCmd, "daemon": daemonCmd, "follow": followCmd, "down": downCmd, "push": pushCmd, "signal": signalCmd,
			"await": awaitCmd, "code": codeCmd, "json": jsonCmd, "writes": writesCmd, "bomb": bombCmd,
			"page": pageCmd, "certs": certsCmd, "ports": portsCmd, "powercut": killCmd, "api": apiCmd, "issuer": issuerCmd, "collector": collectorCmd, "spans": spansCmd,
		},
	})
}

// ofThisPart are the scripts that run: all of them, or where SLIPWAY_PART is "1/4"
// every fourth one, from the second on.
func ofThisPart(t *testing.T) (scripts []string) {
	all, err := filepath.Glob("script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	part, parts := 0, 1
	if text := os.Getenv("SLIPWAY_PART"); text != "" {
		if _, err := fmt.Sscanf(text, "%d/%d", &part, &parts); err != nil || parts < 1 || part < 0 || part >= parts {
			t.Fatalf("SLIPWAY_PART=%s: want a number from 0, and of how many", text)
		}
	}
	for i := part; i < len(all); i += parts {
		scripts = append(scripts, all[i])
	}
	t.Logf("%d of %d scripts", len(scripts), len(all))
	return scripts
}

// noneSkipped refuses what would end a script early and call it passed.
func noneSkipped(t *testing.T) {
	scripts, err := filepath.Glob("script/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	early := regexp.MustCompile(`(?m)^(stop|skip|\[).*$`)
	for _, name := range scripts {
		a, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if line := early.Find(a.Comment); line != nil {
			t.Errorf("%s: %q would leave out what follows", name, line)
		}
	}
}

// stage is where the programs are, and what runs beside a script.
type stage struct {
	bin         string
	lab, daemon *program
	issuer      *oidc.Provider
	sink        *sink // of traces; nil for none
}

func stageOf(ts *testscript.TestScript) *stage { return ts.Value("stage").(*stage) }

func (s *stage) end() {
	if s.issuer != nil {
		s.issuer.Close()
	}
	for _, p := range []*program{s.daemon, s.lab} {
		if p != nil {
			p.end()
		}
	}
}

// program is a process and how it ended, when it has.
type program struct {
	log   string
	cmd   *exec.Cmd
	ended chan error
}

// start starts a program that writes to a log.
func start(ts *testscript.TestScript, log, name string, args ...string) *program {
	out, err := os.OpenFile(ts.MkAbs(log), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	ts.Check(err)
	defer out.Close()
	p := &program{log: log, cmd: exec.Command(filepath.Join(stageOf(ts).bin, name), args...), ended: make(chan error, 1)}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = ts.MkAbs("."), out, out
	p.cmd.Env = append(os.Environ(), "SLIPWAY_STATE="+ts.Getenv("SLIPWAY_STATE"))
	ts.Check(p.cmd.Start())
	go func() { p.ended <- p.cmd.Wait() }()
	return p
}

// end asks the program to end, as systemd does, and kills it when it does not.
func (p *program) end() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	select {
	case err := <-p.ended:
		return err
	case <-time.After(patience):
		return errors.Join(errors.New("it did not end"), p.cmd.Process.Kill(), <-p.ended)
	}
}

// until waits for a program to be ready.
func (p *program) until(ts *testscript.TestScript, ready func() bool) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !ready(); {
		select {
		case err := <-p.ended:
			p.ended <- err
			ts.Fatalf("%s has ended: %v\n%s", p.cmd, err, ts.ReadFile(p.log))
		case now := <-tick.C:
			if now.After(end) {
				ts.Fatalf("%s is not ready\n%s", p.cmd, ts.ReadFile(p.log))
			}
		}
	}
}

func siteCmd(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Check(os.CopyFS(ts.MkAbs("site"), os.DirFS(ts.Getenv("EXAMPLE"))))
	port := freePort(ts)
	ts.Setenv("BMC_PORT", port)
	ts.Setenv("OTHER_PORT", freePort(ts)) // for a second lab
	replace(ts, "site/lab.cue", map[string]string{"bmc": port, "ssh": freePort(ts), "images": freePort(ts)})
	replace(ts, "site/site.cue", map[string]string{"pollEvery": `"300ms"`, "observeEvery": `"1s"`, "reportEvery": `"500ms"`})
	_, key, err := ed25519.GenerateKey(rand.Reader)
	ts.Check(err)
	block, err := ssh.MarshalPrivateKey(key, "")
	ts.Check(err)
	ts.Check(os.Mkdir(ts.MkAbs("cred"), 0o700))
	ts.Check(os.WriteFile(ts.MkAbs("cred/bmc"), []byte("hosts: 127.83.0.0/16\nuse: redfish\nports: 1024-65535\nusername: admin\n\nscript-password\n"), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs("cred/os"), fmt.Appendf(nil, "hosts: 127.84.0.0/16\nuse: ssh\nports: 1024-65535\nusername: admin\n\n%s", pem.EncodeToMemory(block)), 0o600))
	git(ts, "-C", "site", "init", "-q", "-b", "main")
	git(ts, "-C", "site", "add", "-A")
	git(ts, "-C", "site", "commit", "-q", "-m", "the site")
	git(ts, "clone", "-q", "--bare", "site", "site.git")
	git(ts, "-C", "site", "remote", "add", "origin", "../site.git")
}

func git(ts *testscript.TestScript, args ...string) {
	ts.Check(ts.Exec("git", args...))
}

// freePort gives a port that nobody listens at, another one each time.
func freePort(ts *testscript.TestScript) string {
	free, err := port.Free()
	ts.Check(err)
	return strconv.Itoa(free)
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

func labCmd(ts *testscript.TestScript, _ bool, args []string) {
	run := []string{"run", "--control", "lab.sock", "--speed", "60"}
	if !slices.Contains(args, "--fleet") {
		run = append(run, "--site", "site", "--credentials", "cred")
	}
	p := start(ts, "lab.log", "slipway-lab", append(run, args...)...)
	stageOf(ts).lab = p
	p.until(ts, func() bool { return strings.Contains(ts.ReadFile(p.log), "machines ready") })
}

func daemonCmd(ts *testscript.TestScript, neg bool, args []string) {
	followCmd(ts, neg, append([]string{"--repo", ts.MkAbs("site.git"), "--credentials", "cred"}, args...))
}

func followCmd(ts *testscript.TestScript, _ bool, args []string) {
	own := []string{"run", "--artifact-listen", "127.0.0.1:0"}
	if slices.Contains(args, "--join") {
		own = append(own, "--copy-listen", "127.0.0.1:0")
	}
	p := start(ts, "daemon.log", "slipway", append(own, args...)...)
	stageOf(ts).daemon = p
	client := control.Dial(control.Socket(ts.Getenv("SLIPWAY_STATE")))
	defer client.Close()
	p.until(ts, func() bool {
		_, err := client.Report(context.Background(), "")
		return err == nil || errors.Is(err, control.ErrWhichSite)
	})
}

func portsCmd(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		ts.Setenv(name, freePort(ts))
	}
}

// killCmd ends the daemon as a power cut does.
func killCmd(ts *testscript.TestScript, _ bool, _ []string) {
	p := stageOf(ts).daemon
	stageOf(ts).daemon = nil
	ts.Check(p.cmd.Process.Kill())
	<-p.ended
}

// signalCmd sends KILL, STOP or CONT to the process that runs for a site now.
func signalCmd(ts *testscript.TestScript, _ bool, args []string) {
	runs := regexp.MustCompile(`msg="the process of a site runs" site=`+args[0]+` pid=(\d+)`).FindAllStringSubmatch(ts.ReadFile("daemon.log"), -1)
	if runs == nil {
		ts.Fatalf("no process of %s has run", args[0])
	}
	pid, err := strconv.Atoi(runs[len(runs)-1][1])
	ts.Check(err)
	ts.Check(syscall.Kill(pid, map[string]syscall.Signal{"KILL": syscall.SIGKILL, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT}[args[1]]))
}

func downCmd(ts *testscript.TestScript, _ bool, _ []string) {
	s := stageOf(ts)
	p := s.daemon
	s.daemon = nil
	ts.Check(p.end())
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
	re := regexp.MustCompile("(?ms)" + args[0])
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		err := ts.Exec(args[1], args[2:]...)
		said := ts.ReadFile("stdout")
		if re.MatchString(said) {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("never matched %s: %v\n%s\n%s", args[0], err, said, lastWords(ts))
		}
	}
}

func pageCmd(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: page RE PATH")
	}
	re := regexp.MustCompile("(?ms)" + args[0])
	listens := regexp.MustCompile(`msg="slipway listens" .*address=(\S+)`)
	stageOf(ts).daemon.until(ts, func() bool {
		at := listens.FindStringSubmatch(ts.ReadFile("daemon.log"))
		if at == nil {
			return false
		}
		resp, err := http.Get("http://" + at[1] + args[1])
		ts.Check(err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		ts.Check(err)
		return re.MatchString(resp.Status + "\n" + string(body))
	})
}

// lastWords is the end of what the daemon logged.
func lastWords(ts *testscript.TestScript) string {
	text, err := os.ReadFile(ts.MkAbs("daemon.log"))
	if err != nil {
		return ""
	}
	return "daemon.log ends:\n" + string(text[max(0, len(text)-1500):])
}

func codeCmd(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: code N CMD…")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

func jsonCmd(ts *testscript.TestScript, _ bool, _ []string) {
	var v any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &v))
}

func writesCmd(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(ts.Exec("slipway-lab", "calls", "--writes", "--json", "--control", "lab.sock"))
	var calls []lab.Call
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &calls))
	if (strconv.Itoa(len(calls)) == args[0]) == neg {
		ts.Fatalf("%d requests asked for a change: %+v", len(calls), calls)
	}
}

func bombCmd(ts *testscript.TestScript, _ bool, args []string) {
	const level = "a: "
	bytes, err := strconv.Atoi(args[1])
	ts.Check(err)
	text := "package example\n\nroles: " + strings.Repeat(level, bytes/len(level)) + "1\n"
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o644))
}
