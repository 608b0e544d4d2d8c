package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// Where things are, seen from the demo's folder, which is the working
// directory: the commands that are shown are the commands that are run.
const (
	labSocket    = "lab.sock"
	stateDir     = "state"
	credentials  = "credentials"
	statusBranch = "slipway/status/example"
)

// speed is how much faster than real machines the fleet is.
const speed = "20"

// stage is a folder with a site's repository, and what runs on it.
type stage struct {
	show    *screen
	keep    bool
	bin     string // folder of the programs
	dir     string
	lab     *process
	slipway *process
	daemon  *control.Client

	head    string // the newest commit of the design
	last    site.Status
	inSync  int
	nodes   int
	commits int
}

// open makes the folder: the site in a repository, its bare remote, and the
// credentials.
func open(show *screen, keep bool) (*stage, error) {
	s := &stage{show: show, keep: keep}
	self, err := os.Executable()
	if err != nil {
		return s, err
	}
	s.bin = filepath.Dir(self)
	for _, program := range []string{"slipway", "slipway-lab"} {
		if _, err := os.Stat(filepath.Join(s.bin, program)); err != nil {
			return s, fmt.Errorf("%s is not beside this program: run make build: %w", program, err)
		}
	}
	example, err := findExample(s.bin)
	if err != nil {
		return s, err
	}
	if s.dir, err = os.MkdirTemp("", "slipway-demo-"); err != nil {
		return s, err
	}
	if err := os.CopyFS(filepath.Join(s.dir, "site"), os.DirFS(example)); err != nil {
		return s, err
	}
	if err := os.Chdir(s.dir); err != nil {
		return s, err
	}
	return s, errors.Join(s.quicken(), makeCredentials(), s.makeRepository())
}

// findExample finds the example site from the working directory or from where
// the programs are.
func findExample(bin string) (string, error) {
	for _, place := range []string{".", filepath.Dir(bin)} {
		example, err := filepath.Abs(filepath.Join(place, "site-example"))
		if err != nil {
			return "", err
		}
		if _, err := os.Stat(filepath.Join(example, "site.cue")); err == nil {
			return example, nil
		}
	}
	return "", errors.New("there is no site-example here: run this in a clone of slipway")
}

// quicken gives the copied site free ports and a demo's pace.
func (s *stage) quicken() error {
	pace := map[string]string{"pollEvery": `"1s"`, "observeEvery": `"3s"`, "reportEvery": `"2s"`}
	ports, err := freePorts("bmc", "ssh", "images")
	return errors.Join(err, setFields("site/site.cue", pace), setFields("site/lab.cue", ports))
}

// freePorts finds a free port for each name.
func freePorts(names ...string) (map[string]string, error) {
	ports := map[string]string{}
	for _, name := range names {
		l, err := listenLow()
		if err != nil {
			return nil, err
		}
		defer l.Close() // only at the end, so that all differ
		ports[name] = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// listenLow listens on a port below those that Linux gives to outgoing
// connections, so that none of these takes it meanwhile.
func listenLow() (l net.Listener, err error) {
	for range 100 {
		if l, err = net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", 20000+mathrand.IntN(12000))); err == nil {
			return l, nil
		}
	}
	return nil, err
}

// setFields gives fields of a CUE file, each on its own line, other values.
func setFields(file string, values map[string]string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for field, value := range values {
		line := regexp.MustCompile(`(?m)^(\s*` + field + `:\s*)\S+$`)
		if !line.Match(text) {
			return fmt.Errorf("%s sets no %s", file, field)
		}
		text = line.ReplaceAll(text, []byte("${1}"+value))
	}
	return os.WriteFile(file, text, 0o644)
}

// makeCredentials invents the accounts of the machines.
func makeCredentials() error {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		return err
	}
	const head = "hosts: %s\nusername: admin\n\n%s\n"
	return errors.Join(
		os.Mkdir(credentials, 0o700),
		os.WriteFile(credentials+"/bmc", fmt.Appendf(nil, head, "127.83.0.0/16", rand.Text()), 0o600),
		os.WriteFile(credentials+"/os", fmt.Appendf(nil, head, "127.84.0.0/16", pem.EncodeToMemory(block)), 0o600))
}

func (s *stage) makeRepository() error {
	for _, args := range [][]string{
		{"init", "-q", "-b", "main", "site"},
		{"-C", "site", "config", "user.name", "Demo"},
		{"-C", "site", "config", "user.email", "demo@example.org"},
		{"-C", "site", "add", "-A"},
		{"-C", "site", "commit", "-q", "-m", "Three racks"},
		{"clone", "-q", "--bare", "site", "site.git"},
		{"-C", "site", "remote", "add", "origin", "../site.git"},
		{"-C", "site", "fetch", "-q"},
		{"-C", "site", "branch", "-q", "--set-upstream-to=origin/main"},
	} {
		if _, err := s.run(context.Background(), "git", args...); err != nil {
			return err
		}
	}
	return s.readHead(context.Background())
}

func (s *stage) readHead(ctx context.Context) error {
	out, err := s.run(ctx, "git", "-C", "site", "rev-parse", "HEAD")
	s.head = strings.TrimSpace(out)
	return err
}

// environment is that of everything that is started: nothing of the user's Git
// configuration, and our programs found by name.
func (s *stage) environment() []string {
	env := []string{"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "SLIPWAY_STATE=" + stateDir, "PATH=" + s.bin + ":" + os.Getenv("PATH")}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GIT_") && !strings.HasPrefix(v, "PATH=") && !strings.HasPrefix(v, "SLIPWAY_") {
			env = append(env, v)
		}
	}
	return env
}

func (s *stage) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	path := program
	if program != "git" {
		path = filepath.Join(s.bin, program)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = s.environment()
	return cmd
}

// run runs a program to its end and gives what it printed.
func (s *stage) run(ctx context.Context, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := s.command(ctx, program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, strings.TrimSpace(complaint.String()))
	}
	return string(out), nil
}

// ask runs a program and shows how it was called.
func (s *stage) ask(ctx context.Context, program string, args ...string) (string, error) {
	s.show.command(program + " " + strings.Join(args, " "))
	return s.run(ctx, program, args...)
}

// tell runs a program and shows its answer too.
func (s *stage) tell(ctx context.Context, program string, args ...string) error {
	out, err := s.ask(ctx, program, args...)
	for line := range strings.Lines(out) {
		s.show.answer(strings.TrimRight(line, "\n"))
	}
	return err
}

// process is a program that runs until it is ended.
type process struct {
	name  string
	log   string // path of what it prints
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // why it ended; read after ended is closed
}

// start starts a program that dies with this one, unless it is to be kept.
func (s *stage) start(program string, args ...string) (*process, error) {
	s.show.command(program + " " + strings.Join(args, " "))
	p := &process{name: program, log: program + ".log", cmd: s.command(context.Background(), program, args...), ended: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // out of reach of the terminal's interrupt
	if !s.keep {
		p.cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// end ends a process and what it started: first politely.
func (p *process) end() {
	if p == nil {
		return
	}
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
	}
	syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.ended
}

// dead says whether a process that should run has ended.
func (p *process) dead() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// deaths says which processes have ended that should run.
func (s *stage) deaths() error {
	var errs []error
	for _, p := range []*process{s.lab, s.slipway} {
		if p != nil && p.dead() {
			errs = append(errs, fmt.Errorf("%s has ended: %v", p.name, p.err))
		}
	}
	return errors.Join(errs...)
}

func (s *stage) startLab(ctx context.Context, flags ...string) error {
	args := append([]string{"run", "--site", "site", "--credentials", credentials, "--control", labSocket, "--speed", speed}, flags...)
	var err error
	if s.lab, err = s.start("slipway-lab", args...); err != nil {
		return err
	}
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline) && ctx.Err() == nil && !s.lab.dead(); pause(ctx) {
		if ready, _ := os.ReadFile(s.lab.log); bytes.Contains(ready, []byte("machines ready")) {
			s.show.answer(lastLine(string(ready)))
			return nil
		}
	}
	said, _ := os.ReadFile(s.lab.log)
	return fmt.Errorf("the lab is not ready: %s", bytes.TrimSpace(said))
}

func (s *stage) startDaemon() error {
	var err error
	s.slipway, err = s.start("slipway", "run", "--repo", "site.git", "--credentials", credentials)
	s.daemon = control.Dial(control.Socket(stateDir))
	return err
}

// pause waits a moment between two looks.
func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(200 * time.Millisecond):
	}
}

// until shows the status live until a report meets a condition.
func (s *stage) until(ctx context.Context, what string, limit time.Duration, met func(*site.Report) bool) error {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); pause(ctx) {
		r, err := s.daemon.Report("")
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case s.deaths() != nil:
			return fmt.Errorf("waiting for %s", what)
		case err != nil:
			continue // it is only starting
		}
		s.last = r.Status
		s.show.progress(&r.Status)
		if met(&r) {
			s.show.still()
			return nil
		}
	}
	return fmt.Errorf("waited %s for %s; the status is: %s", limit, what, describe(&s.last))
}

// untilInSync waits until the newest design is in force, every node is as
// designed, and the machines agree.
func (s *stage) untilInSync(ctx context.Context, agree func() bool) error {
	return s.until(ctx, "12 nodes in-sync", time.Minute, func(r *site.Report) bool {
		s.nodes, s.inSync = len(r.Status.Nodes), r.Status.Counts()[site.InSync]
		return r.Status.Applied.ID == s.head && s.nodes == 12 && s.inSync == 12 && (agree == nil || agree())
	})
}

// untilReported waits until the status branch says this of the newest design.
func (s *stage) untilReported(ctx context.Context, verdict string) error {
	err := s.until(ctx, "the status branch", 20*time.Second, func(*site.Report) bool {
		message, err := s.run(ctx, "git", "-C", "site.git", "log", "-1", "--format=%B", statusBranch)
		return err == nil && strings.HasPrefix(message, "status: "+verdict+"\n") && strings.Contains(message, "Slipway-Attempted: "+s.head)
	})
	if err == nil {
		s.show.proof("told on branch " + statusBranch + ": " + verdict)
	}
	return err
}

func (s *stage) countReports(ctx context.Context) error {
	count, err := s.run(ctx, "git", "-C", "site.git", "rev-list", "--count", statusBranch)
	if err != nil {
		return err
	}
	s.commits, err = strconv.Atoi(strings.TrimSpace(count))
	return err
}

// machines is what the machines themselves say.
func (s *stage) machines(ctx context.Context) ([]lab.State, error) {
	out, err := s.run(ctx, "slipway-lab", "machine", "--json", "--control", labSocket)
	if err != nil {
		return nil, err
	}
	var all []lab.State
	return all, json.Unmarshal([]byte(out), &all)
}

// machine is one of them; the zero State when the lab does not answer.
func (s *stage) machine(ctx context.Context, name string) lab.State {
	all, _ := s.machines(ctx)
	for _, m := range all {
		if m.Name == name {
			return m
		}
	}
	return lab.State{}
}

func (s *stage) showMachines(ctx context.Context, names ...string) error {
	for _, name := range names {
		m := s.machine(ctx, name)
		if m.Name == "" {
			return fmt.Errorf("the lab does not tell of %s", name)
		}
		s.show.answer(fmt.Sprintf("%s  power %s, boots %s", m.Name, strings.ToLower(m.Power), strings.Join(m.BootOrder, ", ")))
	}
	return nil
}

// showInstalled shows that machines carry the image of the design.
func (s *stage) showInstalled(ctx context.Context, names ...string) error {
	design, err := os.ReadFile("site/lab.cue")
	if err != nil {
		return err
	}
	for _, name := range names {
		m := s.machine(ctx, name)
		if m.Marker == nil || !bytes.Contains(design, []byte(strconv.Quote(m.DiskDigest))) {
			return fmt.Errorf("the disk of %s holds %q, which is not the design's image", name, m.DiskDigest)
		}
		s.show.answer(fmt.Sprintf("%s  generation %d, disk sha256 %.12s… is the design's image", m.Name, m.Marker.Generation, m.DiskDigest))
	}
	return nil
}

// writes is how many requests asked the machines for a change, ever.
func (s *stage) writes(ctx context.Context) (int, error) {
	out, err := s.run(ctx, "slipway-lab", "calls", "--writes", "--json", "--control", labSocket)
	if err != nil {
		return 0, err
	}
	var calls []lab.Call
	err = json.Unmarshal([]byte(out), &calls)
	return len(calls), err
}

// edit replaces the one place of a text in a file of the site.
func (s *stage) edit(file, old, new string) error {
	path := filepath.Join("site", file)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if n := strings.Count(string(text), old); n != 1 {
		return fmt.Errorf("%s holds %q %d times", path, old, n)
	}
	return os.WriteFile(path, []byte(strings.Replace(string(text), old, new, 1)), 0o644)
}

// cut takes out a file's text from one mark to the next.
func (s *stage) cut(file, from, to string) error {
	text, err := os.ReadFile(filepath.Join("site", file))
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(text), from)
	middle, _, found := strings.Cut(rest, to)
	if !found {
		return fmt.Errorf("site/%s does not hold %q before %q", file, from, to)
	}
	return s.edit(file, from+middle, "")
}

func (s *stage) remove(file string) error { return os.Remove(filepath.Join("site", file)) }

// commit commits and pushes what was edited, and shows it.
func (s *stage) commit(ctx context.Context, message string) error {
	if _, err := s.run(ctx, "git", "-C", "site", "add", "-A"); err != nil {
		return err
	}
	s.show.command(fmt.Sprintf("git commit -m %q && git push", message))
	if _, err := s.run(ctx, "git", "-C", "site", "commit", "-q", "-m", message); err != nil {
		return err
	}
	return s.push(ctx)
}

// revert takes the last commit back.
func (s *stage) revert(ctx context.Context) error {
	s.show.command("git revert HEAD && git push")
	if _, err := s.run(ctx, "git", "-C", "site", "revert", "--no-edit", "HEAD"); err != nil {
		return err
	}
	return s.push(ctx)
}

// restore puts files back as they were before the last commit.
func (s *stage) restore(ctx context.Context, files ...string) error {
	s.show.command("git checkout HEAD~ -- " + strings.Join(files, " "))
	if _, err := s.run(ctx, "git", append([]string{"-C", "site", "checkout", "-q", "HEAD~", "--"}, files...)...); err != nil {
		return err
	}
	return s.commit(ctx, "put the nodes back")
}

func (s *stage) push(ctx context.Context) error {
	if _, err := s.run(ctx, "git", "-C", "site", "push", "-q"); err != nil {
		return err
	}
	if err := s.readHead(ctx); err != nil {
		return err
	}
	diff, err := s.run(ctx, "git", "-C", "site", "show", "--format=", "--unified=0", "--no-color")
	s.show.diff(diff)
	return err
}

// close ends everything and removes the folder.
func (s *stage) close() {
	if s.daemon != nil {
		s.daemon.Close()
	}
	s.slipway.end()
	s.lab.end()
	if s.dir != "" {
		os.RemoveAll(s.dir)
	}
}

// lastLogs is the end of what the daemon logged.
func (s *stage) lastLogs() string {
	if s.slipway == nil {
		return ""
	}
	log, _ := os.ReadFile(s.slipway.log)
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	return "\nThe daemon's last words:\n" + strings.Join(lines[max(0, len(lines)-15):], "\n") + "\n"
}

// leaveRunning says how to look around, and how to end it.
func (s *stage) leaveRunning() {
	s.show.text(fmt.Sprintf(`
  Everything runs on. To look around:

    cd %[1]s
    export PATH=%[2]s:$PATH
    export SLIPWAY_STATE=$PWD/%[3]s
    slipway status --watch
    slipway why compute-4

  Change the design, in the clone called site, and see it done:

    cd site
    sed -i '/"compute-4": {/,/}$/ s/"off"/"on"/' rack-2.cue
    git commit -a -m 'compute-4 works again' && git push
    cd ..

  Change a machine behind the daemon's back:

    slipway-lab machine --control %[4]s
    slipway-lab machine compute-1 --power off --control %[4]s

  What the daemon says in Git, and in its log:

    git -C site.git show %[5]s:README.md
    tail -f slipway.log

  To end it:

    kill %[6]d %[7]d; sleep 2; rm -r %[1]s
`, s.dir, s.bin, stateDir, labSocket, statusBranch, s.slipway.cmd.Process.Pid, s.lab.cmd.Process.Pid))
}
