package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/port"
)

// Where things are, seen from the demo's folder, which is the working
// directory: the commands that are shown are the commands that are run, those
// of Git without -C in the clone called site.
const (
	labSocket   = "lab.sock"
	stateDir    = "state"
	credentials = "credentials"
)

// speed is how much faster than real machines the fleet is.
const speed = "30"

// stage is a folder with a site's repository, and what runs on it.
type stage struct {
	show    *screen
	keep    bool
	bin     string // folder of the programs
	dir     string
	lab     *process
	slipway *process
	opened  page
	page    *process // of slipway web; nil without
	daemon  *control.Client
	forge   *forge
	rack    *rack    // of virtual machines, in place of the lab
	console *console // that is shown beside the progress
	branch  string   // where the daemon reports to
	nodes   int      // in the design
	built   string   // folder with what blank servers are installed from
	// patience is how long all nodes may take to be as designed.
	patience time.Duration

	head    string      // the newest commit of the design
	last    site.Status // the status last seen
	commits int         // on the status branch, in the end
}

// openFleet is a stage with the example site in a repository, its bare remote,
// and the credentials.
func openFleet(show *screen, keep bool) (*stage, error) {
	s := &stage{show: show, keep: keep, branch: "slipway/status/example", nodes: 12, patience: time.Minute}
	if err := s.enter(".", "slipway", "slipway-lab"); err != nil {
		return s, err
	}
	if err := errors.Join(s.quicken(), makeCredentials()); err != nil {
		return s, err
	}
	if err := s.openForge(); err != nil {
		return s, err
	}
	return s, s.makeRepository("Three racks")
}

// enter makes the folder with a copy of an example, and works in it from then on.
func (s *stage) enter(example string, programs ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	s.bin = filepath.Dir(self)
	for _, program := range programs {
		if _, err := os.Stat(filepath.Join(s.bin, program)); err != nil {
			return fmt.Errorf("%s is not beside this program: run make build: %w", program, err)
		}
	}
	examples, err := findExample(s.bin)
	if err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp("", "slipway-demo-"); err != nil {
		return err
	}
	if err := os.CopyFS(filepath.Join(s.dir, "site"), os.DirFS(filepath.Join(examples, example))); err != nil {
		return err
	}
	return os.Chdir(s.dir)
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
	ports, err := freePorts("bmc", "ssh", "images")
	return errors.Join(err, setFields("site/site.cue", pace("3s")), setFields("site/lab.cue", ports))
}

// pace is how often the daemon of a demo looks and tells.
func pace(observe string) map[string]string {
	return map[string]string{"pollEvery": `"1s"`, "observeEvery": strconv.Quote(observe), "reportEvery": `"2s"`}
}

// freePorts finds a free port for each name.
func freePorts(names ...string) (map[string]string, error) {
	ports := map[string]string{}
	for _, name := range names {
		free, err := port.Free()
		if err != nil {
			return nil, err
		}
		ports[name] = strconv.Itoa(free)
	}
	return ports, nil
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
	key, _, err := makeKey()
	if err != nil {
		return err
	}
	const head = "hosts: %s\nuse: %s\nports: 1024-65535\nusername: admin\n\n%s\n"
	return errors.Join(
		os.Mkdir(credentials, 0o700),
		os.WriteFile(credentials+"/bmc", fmt.Appendf(nil, head, "127.83.0.0/16", "redfish", rand.Text()), 0o600),
		os.WriteFile(credentials+"/os", fmt.Appendf(nil, head, "127.84.0.0/16", "ssh", key), 0o600))
}

// makeKey invents a key of SSH: a file's text, and the line for who lets it in.
func makeKey() (private, public string, err error) {
	of, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", "", err
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		return "", "", err
	}
	line, err := ssh.NewPublicKey(of)
	if err != nil {
		return "", "", err
	}
	return string(pem.EncodeToMemory(block)), strings.TrimSpace(string(ssh.MarshalAuthorizedKey(line))), nil
}

func (s *stage) makeRepository(message string) error {
	for _, args := range [][]string{
		{"init", "-q", "-b", "main", "site"},
		{"-C", "site", "config", "user.name", "Demo"},
		{"-C", "site", "config", "user.email", "demo@example.org"},
		{"-C", "site", "config", "push.autoSetupRemote", "true"},
		{"-C", "site", "add", "-A"},
		{"-C", "site", "commit", "-q", "-m", message},
		{"-C", "site", "remote", "add", "origin", "../site.git"},
		{"-C", "site", "push", "-q"},
	} {
		if _, err := s.run(context.Background(), "git", args...); err != nil {
			return err
		}
	}
	return s.readHead(context.Background())
}

// close ends everything and removes the folder.
func (s *stage) close() {
	if s.daemon != nil {
		s.daemon.Close()
	}
	s.page.end()
	s.slipway.end()
	s.lab.end()
	s.console.end()
	s.rack.end()
	if s.forge != nil {
		s.forge.Close()
	}
	if s.dir != "" {
		os.RemoveAll(s.dir)
	}
}

// leaveForge has the daemon go on without the GitHub, which ends with this
// program.
func (s *stage) leaveForge() error {
	s.daemon.Close()
	s.slipway.end()
	s.forge.Close()
	return s.startDaemon()
}

// openPage serves the page of the site, if that is asked for, and says where it is. The page is open until
// the site is ended.
func (s *stage) openPage(ctx context.Context) error {
	if s.opened == noPage {
		return nil
	}
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline) && ctx.Err() == nil; pause(ctx, moment) {
		if _, err := s.daemon.WhoAmI(ctx); err == nil { // the daemon has just been started
			break
		}
	}
	p, err := s.startAs("slipway", "web.log", "web")
	if err != nil {
		return err
	}
	s.page = p
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline) && ctx.Err() == nil && !p.dead(); pause(ctx, moment) {
		said, _ := os.ReadFile(p.log)
		for line := range strings.Lines(string(said)) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "http://") {
				s.show.answer("open in your browser: " + line)
				return nil
			}
		}
	}
	said, _ := os.ReadFile(p.log)
	return fmt.Errorf("slipway web printed no address: %s", lastLine(string(said)))
}

// leaveRunning says how to look around, and how to end it.
func (s *stage) leaveRunning() {
	var ids []string
	for _, p := range []*process{s.slipway, s.lab, s.page} {
		if p != nil {
			ids = append(ids, strconv.Itoa(p.cmd.Process.Pid))
		}
	}
	s.show.text(fmt.Sprintf(`
  Everything runs on, but for the GitHub. To look around:

    cd %[1]s
    export PATH=%[2]s:$PATH
    export SLIPWAY_STATE=$PWD/%[3]s
    slipway status --watch
    slipway why compute-4
    slipway web

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

    kill %[6]s; sleep 2; rm -r %[1]s
`, s.dir, s.bin, stateDir, labSocket, s.branch, strings.Join(ids, " ")))
}
