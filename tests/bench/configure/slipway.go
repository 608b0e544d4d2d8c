package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing/fstest"
	"time"

	gossh "golang.org/x/crypto/ssh"

	evaluate "github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent"
	"github.com/slipway-gitops/slipway/tests/bench/rig"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// helpers are those that make build makes.
const helpers = "bin/agents"

// tools are those that are measured: without Ansible there are no ratios to it.
var tools = flag.String("tools", "ansible,slipway", "which tools to measure")

// configure brings hosts to one state with both tools, and looks at them again.
func configure(quick bool) ([]string, error) {
	count := 50
	if quick {
		count = 5
	}
	dir, err := os.MkdirTemp("", "bench-configure-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	key, public, err := newKey(dir)
	if err != nil {
		return nil, err
	}
	var figures []string
	times := map[string]time.Duration{}
	if err := ownNetworkNames(); err != nil {
		return nil, err
	}
	// Each tool has hosts of its own, since what one has made is there for the other.
	for _, tool := range strings.Split(*tools, ",") {
		if err := onHosts(filepath.Join(dir, tool), count, public, func(hosts []*host) error {
			return measure(tool, filepath.Join(dir, tool), hosts, key, public, times)
		}); err != nil {
			return nil, err
		}
		for _, name := range slices.Sorted(maps.Keys(times)) {
			rig.Progress("%s: %s", name, times[name].Round(time.Millisecond))
		}
	}
	ratio := func(name string, a, b time.Duration) {
		if a == 0 || b == 0 {
			return
		}
		figures = append(figures, rig.Figure("configure/"+name, a.Seconds()/b.Seconds(), "ratio"))
	}
	ratio("first-ratio", times["slipway first"], times["ansible first"])
	ratio("nochange-ratio", times["slipway nochange"], times["ansible nochange"])
	ratio("login-ratio", times["look"], times["login"])
	ratio("cpu-ratio", times["slipway cpu"], times["ansible cpu"])
	return append(figures, rig.Figure("configure/node-requests", float64(times["requests"]), "commands")), nil
}

func onHosts(dir string, count int, public string, run func([]*host) error) error {
	rig.Progress("booting %d hosts", count)
	f, err := boot(dir, count, public)
	defer f.close()
	if err != nil {
		return err
	}
	return run(f.hosts)
}

func measure(tool, dir string, hosts []*host, key, public string, times map[string]time.Duration) (err error) {
	if tool == "ansible" {
		rig.Progress("ansible, from nothing")
		if times["ansible first"], _, err = ansible(dir, hosts, key, public); err != nil {
			return err
		}
		rig.Progress("ansible, with nothing to do")
		times["ansible nochange"], times["ansible cpu"], err = ansible(dir, hosts, key, public)
		return err
	}
	return slipway(dir, hosts, key, public, times)
}

// slipway runs the daemon until all is as designed, and then plans with a look at all
// hosts, by the commands that people use.
func slipway(dir string, hosts []*host, key, public string, times map[string]time.Duration) error {
	fleet, err := lab.Start(lab.Config{Seed: rig.Seed, Machines: rig.Machines(len(hosts), "on")})
	if err != nil {
		return err
	}
	defer fleet.Close()
	work := filepath.Join(dir, "daemon")
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	files, err := design(hosts, fleet.BMCPort(), public)
	if err != nil {
		return err
	}
	d, err := start(work, files, key)
	if d != nil {
		defer func() { d.Close(err) }()
	}
	if err != nil {
		return err
	}
	rig.Progress("slipway, from nothing")
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	if _, err = d.InSync(ctx, len(hosts)); err != nil {
		return err
	}
	times["slipway first"] = time.Since(d.Begun)
	d.Close(nil)
	rig.Progress("slipway, with nothing to do")
	cmd := exec.Command(rig.Binary(), "plan", "--observe", "--credentials", filepath.Join(work, "credentials"), "--state", filepath.Join(work, "state"), rig.Work(work))
	cmd.Env = append(os.Environ(), "SLIPWAY_AGENTS="+helpers)
	begun := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("slipway plan: %w: %s", err, out)
	}
	times["slipway nochange"], times["slipway cpu"] = time.Since(begun), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()
	rig.Progress("%s", lastLine(string(out)))
	rig.Progress("looks and bare logins, in turn")
	return inTurn(files, hosts, key, times)
}

// rounds is how often looks and bare logins are measured. One of each comes first and does not count: it has the helpers
// read, as by a daemon that runs.
const rounds = 20

// inTurn measures looks and bare logins by turns, and takes the median of each, so that busy moments of this machine
// do not count.
func inTurn(files map[string]string, hosts []*host, key string, times map[string]time.Duration) error {
	look, err := looks(files, key)
	if err != nil {
		return err
	}
	var looked, loggedIn []time.Duration
	for round := range rounds + 1 {
		before := commands(hosts[0])
		one, err := look()
		if err != nil {
			return err
		}
		times["requests"] = time.Duration(commands(hosts[0]) - before)
		other, err := logins(hosts, key)
		if err != nil {
			return err
		}
		if round > 0 {
			looked, loggedIn = append(looked, one), append(loggedIn, other)
		}
	}
	slices.Sort(looked)
	slices.Sort(loggedIn)
	times["look"], times["login"] = looked[rounds/2], loggedIn[rounds/2]
	return nil
}

// looks gives what looks at all hosts at once, at everything that is designed inside them, as the
// daemon does.
func looks(files map[string]string, key string) (func() (time.Duration, error), error) {
	tree := fstest.MapFS{}
	for name, text := range files {
		tree[name] = &fstest.MapFile{Data: []byte(text)}
	}
	r := evaluate.EvaluateHere(tree, "bench")
	if r.Site == nil {
		return nil, fmt.Errorf("the design is refused: %v", r.Findings)
	}
	text, err := os.ReadFile(key)
	if err != nil {
		return nil, err
	}
	d := agent.New(agent.Options{Folder: helpers})
	return func() (time.Duration, error) {
		errs := make(chan error, len(r.Site.Nodes))
		begun := time.Now()
		for _, n := range r.Site.Nodes {
			go func() { errs <- look(d, n, string(text)) }()
		}
		var err error
		for range r.Site.Nodes {
			err = errors.Join(err, <-errs)
		}
		return time.Since(begun), err
	}, nil
}

func look(d *agent.Driver, n *site.Node, key string) error {
	ctx := context.Background()
	m, err := d.Open(ctx, n.Endpoints[site.OS], secret.New("root", key))
	if err != nil {
		return err
	}
	defer m.Close()
	seen, err := m.Observe(ctx, n, d.Facets())
	for _, f := range site.InsideFacets {
		if err == nil && len(n.Items(f)) > 0 && !plan.AsDesigned(n, f, seen.Facets[f]) {
			err = fmt.Errorf("%s of %s is not seen as designed", f, n.Name)
		}
	}
	return err
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// start begins a daemon whose credentials open BMCs and hosts.
func start(dir string, files map[string]string, key string) (*rig.Daemon, error) {
	text, err := os.ReadFile(key)
	if err != nil {
		return nil, err
	}
	for _, step := range []func() error{
		func() error { return rig.Write(rig.Work(dir), files) },
		func() error { return run(rig.Binary(), "check", rig.Work(dir)) },
		func() error { return rig.Git(rig.Work(dir), "init", "-q", "-b", "main") },
		func() error { return rig.Git(rig.Work(dir), "add", "-A") },
		func() error { return rig.Git(rig.Work(dir), "commit", "-q", "-m", "site") },
		func() error { return rig.Git(dir, "clone", "-q", "--bare", rig.Work(dir), rig.Repo(dir)) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return rig.Follow(dir, "file://"+rig.Repo(dir), map[string]string{
		"bmc": rig.Account("127.0.0.0/8", rig.Password),
		"os":  "hosts: 10.77.0.0/16\nuse: ssh\nports: 22\nusername: root\n\n" + string(text),
	}, "--agents", helpers)
}

// commands is how many commands sshd has started on a host.
func commands(h *host) int {
	out, err := exec.Command("journalctl", "--directory="+filepath.Join(h.root, "var/log/journal"), "-o", "cat").Output()
	if err != nil {
		return 0
	}
	return strings.Count(string(out), "Starting session: command")
}

// logins logs in to all hosts at once and runs `true`.
func logins(hosts []*host, key string) (time.Duration, error) {
	text, err := os.ReadFile(key)
	if err != nil {
		return 0, err
	}
	signer, err := gossh.ParsePrivateKey(text)
	if err != nil {
		return 0, err
	}
	errs := make([]error, len(hosts))
	var all sync.WaitGroup
	begun := time.Now()
	for i, h := range hosts {
		all.Go(func() {
			client, err := gossh.Dial("tcp", h.address+":22", &gossh.ClientConfig{User: "root", Auth: []gossh.AuthMethod{gossh.PublicKeys(signer)},
				HostKeyCallback: gossh.InsecureIgnoreHostKey()}) // a host of this benchmark's own
			if err != nil {
				errs[i] = err
				return
			}
			defer client.Close()
			session, err := client.NewSession()
			if err == nil {
				err = session.Run("true")
			}
			errs[i] = err
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return time.Since(begun), nil
}

// newKey makes a key that logs in, and gives its file and its public half.
func newKey(dir string) (file, public string, err error) {
	pub, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", "", err
	}
	block, err := gossh.MarshalPrivateKey(private, "")
	if err != nil {
		return "", "", err
	}
	file = filepath.Join(dir, "key")
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		return "", "", err
	}
	k, err := gossh.NewPublicKey(pub)
	if err != nil {
		return "", "", err
	}
	return file, strings.TrimSpace(string(gossh.MarshalAuthorizedKey(k))), nil
}
