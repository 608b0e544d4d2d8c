package docs

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/slipway-gitops/slipway/tests/port"
)

var update = flag.Bool("update", false, "write what is printed into the pages, where it is not what they show")

// atOnce is how many pages are followed at once: they wait more than they work.
const atOnce = "6"

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", atOnce); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// patience bounds how long a page waits for what it shows.
const patience = time.Minute

// keeps are the programs that do not end: each is waited for until it prints what the
// page shows, and ends with the page or by a step "interrupt".
var keeps = []string{"slipway run ", "slipway witness ", "slipway-lab run ", "slipway status --watch"}

// reads are the commands that only read, which are repeated until they print what the
// page shows, as a person would.
var reads = []string{
	"slipway status", "slipway why", "slipway plan", "slipway history", "slipway inventory", "slipway logs", "git fetch", "slipway-lab machine\n",
	"slipway approve\n", "slipway artifact list", "slipway member list",
}

// TestPages runs the tutorials and how-tos, each from top to bottom in a folder of its
// own that has a copy of site-example. Beside testscript's commands a step of the test
// may be:
//
//	instead A B      in the commands that follow and in what they print, B stands for A
//	append A B       commands that begin with A get B at their end
//	interrupt A      ends the program that began with A, as Ctrl-C does
//	port NAME        sets NAME to a port that is free
//	runs CMD…        starts slipway-lab, without being on the page
//	starts CMD…      starts slipway run, without being on the page
//	picture FILE TITLE CMD…  holds the picture FILE to what a command prints
//	draws FILE TITLE         holds it to the comment on the open pull request
//	account CIDR     writes credentials/bmc, the account of the machines of fleet.json
//	does CMD…        is typed by the reader, without being on the page
//	await RE CMD…    runs a command until what it prints matches
func TestPages(t *testing.T) {
	bin := build(t)
	all := map[string]*page{}
	var scripts []string
	dir := t.TempDir()
	for _, name := range typed(t) {
		if heldBy[name] != "" {
			continue
		}
		p := readPage(t, name)
		for _, w := range p.wrong {
			t.Error(w)
		}
		scripts = append(scripts, script(t, dir, p))
		all[strings.TrimSuffix(filepath.Base(scripts[len(scripts)-1]), ".txtar")] = p
	}
	listed(t)
	t.Run("run", func(t *testing.T) { follow(t, bin, scripts, all) })
	for _, p := range all {
		p.write(t)
	}
}

func follow(t *testing.T, bin string, scripts []string, all map[string]*page) {
	testscript.Run(t, testscript.Params{
		Files: scripts, RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			r := &reader{bound: bound{}, appends: [][2]string{{"slipway run ", "--artifact-listen 127.0.0.1:0"}}}
			env.Values["reader"] = r
			env.Defer(r.end)
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("TMPDIR", filepath.Join(env.WorkDir, ".tmp"))
			env.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(env.WorkDir, ".gitconfig"))
			env.Setenv("SLIPWAY_STATE", filepath.Join(env.WorkDir, "nowhere"))
			env.Setenv("LC_ALL", "C.UTF-8")
			for _, who := range []string{"AUTHOR", "COMMITTER"} {
				env.Setenv("GIT_"+who+"_NAME", "Ana")
				env.Setenv("GIT_"+who+"_EMAIL", "ana@example.org")
			}
			return errors.Join(os.MkdirAll(filepath.Join(env.WorkDir, "home"), 0o700), os.MkdirAll(filepath.Join(env.WorkDir, ".tmp"), 0o700),
				copyFile("testdata/fleet.json", filepath.Join(env.WorkDir, "fleet.json")),
				os.CopyFS(filepath.Join(env.WorkDir, "site-example"), os.DirFS(filepath.Join(folder, "site-example"))))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"types":     func(ts *testscript.TestScript, _ bool, args []string) { typesCmd(t, ts, all[ts.Name()], args) },
			"instead":   insteadCmd,
			"append":    appendCmd,
			"interrupt": interruptCmd,
			"port":      portCmd,
			"await":     awaitCmd,
			"runs":      runsCmd,
			"starts":    startsCmd,
			"account":   accountCmd,
			"does":      doesCmd,
			"forge":     forgeCmd,
			"opens":     opensCmd,
			"says":      saysCmd,
			"merges":    mergesCmd,
			"picture":   pictureCmd,
			"draws":     drawsCmd,
		},
	})
}

// build makes the programs, as make build does.
func build(t *testing.T) (bin string) {
	t.Helper()
	bin = t.TempDir()
	for to, programs := range map[string][]string{
		"": {"./cmd/slipway", "./cmd/slipway-lab"},
		"agents/slipway-helper-linux-" + runtime.GOARCH: {"./cmd/slipway-helper"},
	} {
		cmd := exec.Command("go", append([]string{"build", "-o", filepath.Join(bin, to)}, programs...)...)
		cmd.Dir, cmd.Env = folder, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
	}
	return bin
}

// script writes a page as testscript runs it.
func script(t *testing.T, dir string, p *page) (file string) {
	t.Helper()
	var b strings.Builder
	for i, s := range p.steps {
		_, with := s.with()
		switch {
		case with:
		case s.hidden != "":
			fmt.Fprintf(&b, "# %s:%d\n%s\n", p.name, s.line, s.hidden)
		case notRun(p.name, s) == "":
			fmt.Fprintf(&b, "types %d\n", i)
		}
	}
	file = filepath.Join(dir, strings.NewReplacer("/", "-", ".md", ".txtar").Replace(p.name))
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// reader is who follows a page.
type reader struct {
	bound   bound
	instead [][2]string
	appends [][2]string
	runs    []*running
	forge   *forge
}

// running is a program that runs on.
type running struct {
	command, log string
	cmd          *exec.Cmd
	ended        chan error
}

func readerOf(ts *testscript.TestScript) *reader { return ts.Value("reader").(*reader) }

func (r *reader) end() {
	for _, p := range r.runs {
		p.interrupt()
	}
	if r.forge != nil {
		r.forge.Close()
	}
}

func (p *running) interrupt() error {
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	select {
	case err := <-p.ended:
		return err
	case <-time.After(patience):
		return errors.Join(errors.New("it did not end"), p.cmd.Process.Kill(), <-p.ended)
	}
}

// here puts the test's own places in the place of a page's.
func (r *reader) here(text string) string {
	for _, x := range r.instead {
		text = strings.ReplaceAll(text, x[0], x[1])
	}
	return text
}

// full is a command of a page as it is run here.
func (r *reader) full(command string) string {
	command = r.bound.fill(r.here(command))
	for _, x := range r.appends {
		if strings.HasPrefix(command, x[0]) {
			command += " " + x[1]
		}
	}
	return command
}

// there is the other way round.
func (r *reader) there(text string) string {
	for i := len(r.instead) - 1; i >= 0; i-- {
		text = strings.ReplaceAll(text, r.instead[i][1], r.instead[i][0])
	}
	return text
}

// typesCmd is a person who types a command of the page, and reads.
func typesCmd(t *testing.T, ts *testscript.TestScript, p *page, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	s, r := &p.steps[n], readerOf(ts)
	command := r.full(s.command)
	shows := make([]string, len(s.shows))
	for i, line := range s.shows {
		shows[i] = r.here(line)
	}
	out, ok := r.try(ts, command, shows)
	switch {
	case ok:
	case *update:
		s.shows = strings.Split(strings.TrimRight(r.there(out), "\n"), "\n")
		r.bound.compares(s.shows, out)
	default:
		ts.Fatalf("%s:%d: %s\n\nthe page shows (in this test's places):\n%s\n\nit prints (-update writes it into the page):\n%s%s",
			p.name, s.line, command, strings.Join(shows, "\n"), r.there(out), r.lastWords(ts))
	}
}

// try runs a command until it prints what is shown, once where it does not only read.
func (r *reader) try(ts *testscript.TestScript, command string, shows []string) (string, bool) {
	ok := false
	if begins(command, keeps) {
		return r.keep(ts, command, shows)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		out, err := r.run(ts, command)
		if len(shows) == 0 {
			ok = err == nil
		} else {
			ok = r.bound.compares(shows, out)
		}
		if ok || !begins(command+"\n", reads) || time.Now().After(end) {
			return out, ok
		}
	}
}

// shell runs a command in the folder and with the variables that the one before left.
const shell = `exec 2>&1
[ -f "$WORK/.shell" ] && . "$WORK/.shell"
eval "$0"
code=$?
{ declare -px | grep -v '^declare -x \(PWD\|OLDPWD\|SHLVL\|_\)='; printf 'cd %q\n' "$PWD"; } >"$WORK/.shell"
exit $code`

// run runs a command, and gives what it prints.
func (r *reader) run(ts *testscript.TestScript, command string) (out string, err error) {
	cmd := exec.Command("bash", "-c", shell, command)
	cmd.Dir, cmd.Env = ts.Getenv("WORK"), environment(ts)
	text, err := cmd.Output()
	return string(text), err
}

// environment are the variables of a script that programs are to have.
func environment(ts *testscript.TestScript) (all []string) {
	for _, name := range []string{"WORK", "PATH", "HOME", "TMPDIR", "LC_ALL", "GIT_CONFIG_GLOBAL", "SLIPWAY_STATE", "SLIPWAY_IDENTITY", "BMC", "SSH", "IMAGES",
		"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"} {
		if value := ts.Getenv(name); value != "" {
			all = append(all, name+"="+value)
		}
	}
	return all
}

// keep starts a program that runs on, and waits for what is shown.
func (r *reader) keep(ts *testscript.TestScript, command string, shows []string) (out string, ok bool) {
	log := filepath.Join(ts.MkAbs("."), ".tmp", fmt.Sprintf("log-%d", len(r.runs)))
	file, err := os.Create(log)
	ts.Check(err)
	defer file.Close()
	p := &running{command: command, log: log, cmd: exec.Command("bash", "-c", `[ -f "$WORK/.shell" ] && . "$WORK/.shell"; eval "exec $0"`, command), ended: make(chan error, 1)}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = ts.Getenv("WORK"), file, file
	p.cmd.Env = environment(ts)
	ts.Check(p.cmd.Start())
	go func() { p.ended <- p.cmd.Wait() }()
	r.runs = append(r.runs, p)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		text, err := os.ReadFile(log)
		ts.Check(err)
		select {
		case err := <-p.ended:
			p.ended <- err
			return string(text) + fmt.Sprint(err), false
		default:
		}
		if len(shows) == 0 || r.bound.compares(shows, string(text)) {
			return string(text), true
		}
		if time.Now().After(end) {
			return string(text), false
		}
	}
}

// lastWords are the ends of what the programs that run on have printed.
func (r *reader) lastWords(ts *testscript.TestScript) string {
	var b strings.Builder
	for _, p := range r.runs {
		text, err := os.ReadFile(p.log)
		ts.Check(err)
		fmt.Fprintf(&b, "\n%s ends:\n%s", p.command, text[max(0, len(text)-1500):])
	}
	return b.String()
}

func begins(command string, with []string) bool {
	for _, w := range with {
		if strings.HasPrefix(command, w) {
			return true
		}
	}
	return false
}

func insteadCmd(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: instead A B")
	}
	readerOf(ts).instead = append(readerOf(ts).instead, [2]string{args[0], args[1]})
}

func appendCmd(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: append A B")
	}
	readerOf(ts).appends = append(readerOf(ts).appends, [2]string{args[0], args[1]})
}

func interruptCmd(ts *testscript.TestScript, _ bool, args []string) {
	r := readerOf(ts)
	for i, p := range r.runs {
		if strings.HasPrefix(p.command, args[0]) {
			var exit *exec.ExitError
			if err := p.interrupt(); errors.As(err, &exit) && exit.ExitCode() == 130 || err == nil || isSignal(err) {
				r.runs = append(r.runs[:i:i], r.runs[i+1:]...)
				return
			}
			ts.Fatalf("%s did not end well%s", p.command, r.lastWords(ts))
		}
	}
	ts.Fatalf("%s does not run", args[0])
}

func isSignal(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGINT
}

// portCmd finds a port.
func portCmd(ts *testscript.TestScript, _ bool, args []string) {
	free, err := port.Free()
	ts.Check(err)
	ts.Setenv(args[0], strconv.Itoa(free))
}

func awaitCmd(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: await RE CMD…")
	}
	re := regexp.MustCompile("(?ms)" + args[0])
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		out, err := readerOf(ts).run(ts, strings.Join(args[1:], " "))
		if re.MatchString(out) {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("never matched %s: %v\n%s%s", args[0], err, out, readerOf(ts).lastWords(ts))
		}
	}
}

func runsCmd(ts *testscript.TestScript, _ bool, args []string) {
	readerOf(ts).keep(ts, strings.Join(args, " "), []string{"…", "lab: …"})
}

func doesCmd(ts *testscript.TestScript, _ bool, args []string) {
	r := readerOf(ts)
	if out, ok := r.try(ts, r.full(strings.Join(args, " ")), nil); !ok {
		ts.Fatalf("%s", out)
	}
}

func accountCmd(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.Mkdir(ts.MkAbs("credentials"), 0o700))
	ts.Check(os.WriteFile(ts.MkAbs("credentials/bmc"), fmt.Appendf(nil, "hosts: %s\nuse: redfish\nports: %s\nusername: slipway\n\nthe password\n", args[0], ts.Getenv("BMC")), 0o600))
}

func startsCmd(ts *testscript.TestScript, _ bool, args []string) {
	r := readerOf(ts)
	command := r.full(strings.Join(args, " "))
	if out, ok := r.keep(ts, command, []string{"…", `time=… msg="slipway runs" …`, "…"}); !ok {
		ts.Fatalf("%s\n%s", command, out)
	}
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}

// write writes a page whose steps show something else now.
func (p *page) write(t *testing.T) {
	t.Helper()
	if !*update {
		return
	}
	var lines []string
	at := 0
	for _, s := range p.steps {
		if s.command == "" {
			continue
		}
		lines = append(lines, p.lines[at:s.at]...)
		for _, line := range s.shows {
			lines = append(lines, strings.TrimRight(strings.Repeat(" ", s.indent)+line, " "))
		}
		at = s.end
	}
	text := strings.Join(append(lines, p.lines[at:]...), "\n")
	if err := os.WriteFile(filepath.Join(folder, p.name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
