package inside_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/sshclient/sshdtest"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent"
	"github.com/slipway-gitops/slipway/tests/nspawn"
)

// TestMain is also the tracer, within a system.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "tracer" {
		os.Exit(trace(os.Args[1:]))
	}
	code := m.Run()
	for _, f := range append(fixtures, withChrony) {
		if err := os.RemoveAll(f.folder); err != nil { // an empty name is no error
			fmt.Fprintln(os.Stderr, err)
		}
	}
	os.Exit(code)
}

// proves skips a test that takes minutes, unless it is asked for.
func proves() bool { return os.Getenv("SLIPWAY_PROVE") != "" }

// fixture is what all systems of a release begin with.
type fixture struct {
	suite nspawn.Suite
	clock string // package of the time service; systemd-timesyncd if empty
	once  sync.Once
	// The following are within folder.
	folder  string
	root    string // a system that does not run
	helpers string
	key     string // of SSH, private
	hostKey string
	signs   string // the key of the repositories in /srv, but for one that signsSecond signs
	// signsSecond is another one.
	signsSecond string
}

// fixtures are those of all releases, and made is that of Debian 12, which most tests use.
var (
	fixtures = newFixtures()
	made     = fixtures[0]
)

func newFixtures() (all []*fixture) {
	for _, suite := range nspawn.Suites {
		all = append(all, &fixture{suite: suite})
	}
	return all
}

// wrap is what sshd runs for each session: the words in /run/prefix go before the
// command, so that a test can look at it or end it.
const wrap = `#!/bin/sh
exec $(cat /run/prefix 2>/dev/null) sh -c "$SSH_ORIGINAL_COMMAND"
`

// updateGRUB stands for Debian's, which wants a disk.
const updateGRUB = `#!/bin/sh
GRUB_CMDLINE_LINUX=
. /etc/default/grub
for f in /etc/default/grub.d/*.cfg; do [ -e "$f" ] && . "$f"; done
mkdir -p /boot/grub
echo "linux /boot/vmlinuz root=/dev/sda1 $GRUB_CMDLINE_LINUX_DEFAULT $GRUB_CMDLINE_LINUX" > /boot/grub/grub.cfg.new
mv /boot/grub/grub.cfg.new /boot/grub/grub.cfg
`

// base makes that once: a system with sshd, in which people have set things already.
func (f *fixture) base(t *testing.T) {
	t.Helper()
	nspawn.Require(t, "dpkg-deb", "dpkg-scanpackages", "gpg", "ssh-keygen")
	f.once.Do(func() {
		var err error
		if f.folder, err = os.MkdirTemp("", "inside-"); err != nil {
			t.Fatal(err)
		}
		f.root, f.helpers = filepath.Join(f.folder, "root"), filepath.Join(f.folder, "helpers")
		if err := os.Mkdir(f.root, 0o755); err != nil {
			t.Fatal(err)
		}
		var more []string
		if proves() {
			more = []string{"rsyslog", "sudo", cmp.Or(f.clock, "systemd-timesyncd"), "python3-venv"}
		}
		nspawn.UnpackTo(t, f.root, f.suite, append(more, f.suite.Packages...)...)
		for _, zone := range []string{"Europe/Zurich", "Asia/Tokyo", "Etc/UTC"} {
			f.put(t, "/usr/share/zoneinfo/"+zone, sshdtest.Read(t, "/usr/share/zoneinfo/"+zone), 0o644)
		}
		does(t, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(f.helpers, "slipway-helper-linux-"+runtime.GOARCH), "../../cmd/slipway-helper")
		public := sshdtest.Key(t, filepath.Join(f.folder, "key"), "ed25519")
		f.key = sshdtest.Read(t, filepath.Join(f.folder, "key"))
		f.hostKey = strings.TrimSpace(sshdtest.Read(t, filepath.Join(f.root, "etc/ssh/ssh_host_ed25519_key.pub")))
		self, err := os.ReadFile("/proc/self/exe")
		if err != nil {
			t.Fatal(err)
		}
		f.put(t, "/root/tracer", string(self), 0o755)
		f.put(t, "/root/wrap", wrap, 0o755)
		f.put(t, "/root/.ssh/authorized_keys", public+"\n", 0o600)
		f.put(t, "/etc/ssh/sshd_config.d/test.conf", "PermitRootLogin prohibit-password\nUseDNS no\nForceCommand /root/wrap\n", 0o644)
		f.put(t, "/etc/machine-id", "0123456789abcdef0123456789abcdef\n", 0o444)
		f.put(t, "/etc/hostname", "before\n", 0o644)
		f.put(t, "/etc/before.conf", "before\n", 0o640)
		f.put(t, "/etc/folder/before.conf", "before\n", 0o600)
		f.put(t, "/etc/sysctl.d/50-people.conf", "net.ipv4.conf.all.accept_redirects = 0\n", 0o644)
		f.put(t, "/etc/systemd/system/before.service", service("before", "multi-user.target"), 0o644)
		f.put(t, "/usr/sbin/update-grub", updateGRUB, 0o755)
		f.put(t, "/etc/default/grub", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\nGRUB_CMDLINE_LINUX=\"\"\n", 0o644)
		does(t, "chroot", f.root, "/usr/sbin/update-grub")
		does(t, "chroot", f.root, "useradd", "--create-home", "--uid", "1400", "--groups", "video", "--shell", "/bin/sh", "people")
		f.put(t, "/home/people/.ssh/authorized_keys", peoplesKey+"\n", 0o600)
		does(t, "chroot", f.root, "chown", "-R", "people:people", "/home/people/.ssh")
		does(t, "chroot", f.root, "chown", "root:adm", "/etc/before.conf")
		does(t, "chroot", f.root, "systemctl", "enable", "before.service")
		f.publish(t)
	})
	if f.signs == "" {
		t.Fatal("there is no system to begin with")
	}
}

func does(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// put writes a file of the system that all begin with.
func (f *fixture) put(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	at := filepath.Join(f.root, path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(at, mode); err != nil {
		t.Fatal(err)
	}
}

func service(description, target string) string {
	return "[Unit]\nDescription=" + description + "\n[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=" + target + "\n"
}

// deb is a package; its files are beside /usr/share/NAME/version.
type deb struct {
	name, version, postinst string
	files                   map[string]string
}

// debs are those of the repository in /srv/repo.
var debs = []deb{
	{name: "one", version: "1.0"}, {name: "one", version: "2.0"}, {name: "two", version: "1.0"},
	{name: "configured", version: "1.0", files: map[string]string{"etc/configured.conf": "as packaged\n", "DEBIAN/conffiles": "/etc/configured.conf\n"}},
	{name: "serving", version: "1.0", files: map[string]string{
		"lib/systemd/system/serving.service": service("serving", "multi-user.target"), "lib/systemd/system/serving@.service": service("serving %i", "multi-user.target"),
	}},
	{name: "talking", version: "1.0", postinst: "head -c 104857600 /dev/zero | tr '\\0' x"}, {name: "slow", version: "1.0", postinst: "sleep 75"},
}

// publish makes signed repositories in /srv: that of most tests, and those that fields of a
// repository and of a snapshot lead to.
func (f *fixture) publish(t *testing.T) {
	t.Helper()
	first, second := f.signer(t, "gpg"), f.signer(t, "gpg-second")
	f.signs, f.signsSecond = first.public, second.public
	one := func(name, version string) []deb { return []deb{{name: name, version: version}} }
	f.repository(t, first, "repo", "stable", map[string][]deb{"main": debs})
	for _, is := range []string{"a", "b"} {
		f.repository(t, first, "url-"+is, "stable", map[string][]deb{"main": one("url-"+is, "1.0")})
		f.repository(t, first, "suites", "suite-"+is, map[string][]deb{"main": one("suite-"+is, "1.0")})
	}
	f.repository(t, first, "parts", "stable", map[string][]deb{"main": one("part-main", "1.0"), "extra": one("part-extra", "1.0")})
	f.repository(t, first, "keyed", "stable", map[string][]deb{"main": one("key-first", "1.0")})
	f.repository(t, second, "keyed-anew", "stable", map[string][]deb{"main": one("key-second", "1.0")})
	f.repository(t, first, "snap-a", "bookworm", map[string][]deb{"main": {{name: "patched", version: "1.0"}, {name: "patched", version: "1.1"}}})
	f.repository(t, first, "snap-b", "bookworm", map[string][]deb{"main": one("patched", "1.2")})
	f.put(t, "/srv/snap.asc", f.signs, 0o644)
	for version, is := range map[string]string{"1.0": "index-a", "2.0": "index-b"} {
		wheel(t, filepath.Join(f.root, "srv", is, "one"), "one", version)
	}
	does(t, "chmod", "-R", "a+rX", filepath.Join(f.root, "srv"))
}

// signer is a key that signs repositories.
type signer struct{ home, public string }

func (f *fixture) signer(t *testing.T, name string) signer {
	t.Helper()
	home := filepath.Join(f.folder, name)
	does(t, "mkdir", "-m", "700", home)
	does(t, "gpg", "--homedir", home, "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", name+"@example.org", "default", "default", "never")
	t.Cleanup(func() { _ = exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run() })
	return signer{home, does(t, "gpg", "--homedir", home, "--armor", "--export")}
}

// repository makes a signed suite of a repository in a folder of /srv, of packages by component.
func (f *fixture) repository(t *testing.T, by signer, folder, suite string, parts map[string][]deb) {
	t.Helper()
	repo := filepath.Join(f.root, "srv", folder)
	dist := filepath.Join(repo, "dists", suite)
	sums, components := "", slices.Sorted(maps.Keys(parts))
	for _, component := range components {
		pool := "pool/" + suite
		if component != "main" {
			pool += "-" + component
		}
		index := component + "/binary-" + runtime.GOARCH + "/Packages"
		does(t, "mkdir", "-p", filepath.Join(repo, pool), filepath.Join(dist, filepath.Dir(index)))
		for _, d := range parts[component] {
			f.build(t, d, filepath.Join(repo, pool))
		}
		scan := exec.CommandContext(t.Context(), "dpkg-scanpackages", "--multiversion", pool)
		scan.Dir = repo
		lists, err := scan.Output()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dist, index), lists, 0o644); err != nil {
			t.Fatal(err)
		}
		sums += fmt.Sprintf(" %s %d %s\n", does(t, "sha256sum", filepath.Join(dist, index))[:64], len(lists), index)
	}
	release := fmt.Sprintf("Origin: Site\nLabel: site\nSuite: %s\nCodename: %[1]s\nDate: %s\nArchitectures: %s all\nComponents: %s\nSHA256:\n%s",
		suite, time.Now().UTC().Format(time.RFC1123), runtime.GOARCH, strings.Join(components, " "), sums)
	if err := os.WriteFile(filepath.Join(dist, "Release"), []byte(release), 0o644); err != nil {
		t.Fatal(err)
	}
	does(t, "gpg", "--homedir", by.home, "--batch", "--quiet", "--clearsign", "-o", filepath.Join(dist, "InRelease"), filepath.Join(dist, "Release"))
}

// build makes the file of a package in a folder.
func (f *fixture) build(t *testing.T, d deb, folder string) {
	t.Helper()
	tree, err := os.MkdirTemp(f.folder, "deb")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(tree, 0o755); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"DEBIAN/control":                   fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: nobody <n@example.org>\nDescription: for a test\n", d.name, d.version),
		"usr/share/" + d.name + "/version": d.version + "\n",
	}
	if d.postinst != "" {
		files["DEBIAN/postinst"] = "#!/bin/sh\nset -e\n" + d.postinst + "\n"
	}
	maps.Copy(files, d.files)
	for name, content := range files {
		at, mode := filepath.Join(tree, name), os.FileMode(0o644)
		if strings.HasSuffix(name, "postinst") {
			mode = 0o755
		}
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	does(t, "dpkg-deb", "--build", "--root-owner-group", "-Znone", tree, filepath.Join(folder, d.name+"_"+d.version+"_all.deb"))
}

// node is a real Debian under systemd, which the driver reaches by SSH: a listener
// of the test passes each connection on to the sshd within.
type node struct {
	*nspawn.System
	t        *testing.T
	fixture  *fixture
	endpoint site.Endpoint
	driver   *agent.Driver

	mu    sync.Mutex
	conns []net.Conn
	// cut ends a connection after so many bytes from the system; 0 does not.
	cut  int64
	term uint64
}

func start(t *testing.T) *node {
	t.Helper()
	made.base(t)
	return made.start(t, nspawn.Layer(t, made.root), nspawn.Loopback)
}

// start starts the system in a folder.
func (f *fixture) start(t *testing.T, root string, network nspawn.Network) *node {
	t.Helper()
	n := &node{System: nspawn.Start(t, root, network), t: t, fixture: f, driver: agent.New(agent.Options{Folder: f.helpers}), term: 1}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { n.pass(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		n.disconnect()
		all.Wait()
	})
	n.endpoint = site.Endpoint{URL: "ssh://root@" + l.Addr().String(), Trust: site.Trust{HostKeys: []string{f.hostKey}}}
	return n
}

// pass connects to the sshd within and copies both ways.
func (n *node) pass(c net.Conn) {
	defer c.Close()
	to, err := n.dial("127.0.0.1:22")
	if err != nil {
		return
	}
	defer to.Close()
	n.mu.Lock()
	n.conns = append(n.conns, c, to)
	cut := n.cut
	n.mu.Unlock()
	go func() {
		_, _ = io.Copy(to, c)
		to.Close()
	}()
	if cut > 0 {
		_, _ = io.CopyN(c, to, cut)
		return
	}
	_, _ = io.Copy(c, to)
}

// disconnect ends all connections.
func (n *node) disconnect() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		c.Close()
	}
	n.conns = nil
}

// dial connects within the system's network.
func (n *node) dial(address string) (c net.Conn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never let go: the thread is in another network from now on
		var f *os.File
		if f, err = os.Open("/proc/" + n.Leader() + "/ns/net"); err != nil {
			return
		}
		defer f.Close()
		if err = unix.Setns(int(f.Fd()), syscall.CLONE_NEWNET); err != nil {
			return
		}
		c, err = net.DialTimeout("tcp", address, 5*time.Second)
	}()
	<-done
	return c, err
}

func (n *node) open(t *testing.T) driver.Machine {
	t.Helper()
	m, err := n.driver.Open(t.Context(), n.endpoint, secret.New("root", n.fixture.key))
	if err != nil {
		t.Fatal(err)
	}
	m.(driver.Namer).Name("s1", n.term)
	m.(driver.Keyholder).Credentials(func(name string, _ secret.Use) (secret.Value, error) {
		return secret.New("", "the value of "+name), nil
	})
	m.(driver.Supplied).Supply(func(digest string) (io.ReadCloser, int64, error) {
		for name, a := range artifacts {
			if a.SHA256 == digest {
				return io.NopCloser(strings.NewReader(contentOf(name))), int64(len(contentOf(name))), nil
			}
		}
		return nil, 0, fmt.Errorf("there is no artifact %s", digest)
	})
	return m
}

// artifacts are those of all designs, by name.
var artifacts = map[string]site.Artifact{"tool-a": artifactOf("tool-a"), "tool-b": artifactOf("tool-b")}

func contentOf(name string) string { return "the artifact " + name + "\n" }

func artifactOf(name string) site.Artifact {
	sum := sha256.Sum256([]byte(contentOf(name)))
	return site.Artifact{URL: "https://files.example.org/" + name, SHA256: hex.EncodeToString(sum[:])}
}

// look sees all facets.
func look(ctx context.Context, n *node, m driver.Machine, d *site.Node) (site.Observed, error) {
	for range 3 { // a machine with too much to do is looked at again, as the daemon does
		seen, err := m.Observe(ctx, d, n.driver.Facets())
		if !errors.Is(err, driver.ErrUnreachable) || ctx.Err() != nil {
			return seen, err
		}
	}
	return m.Observe(ctx, d, n.driver.Facets())
}

// differing is the first facet that is not as designed.
func differing(d *site.Node, seen site.Observed, facets []site.Facet) site.Facet {
	for _, f := range facets {
		if !d.Asks(f) && len(seen.Facets[f].Left(d, f)) == 0 {
			continue
		}
		if !plan.AsDesigned(d, f, seen.Facets[f]) && !isPending(d, f, seen.Facets[f]) {
			return f
		}
	}
	return ""
}

// isPending says whether all that differs is so after the next boot: of the kernel, and of modules that
// were loaded with other parameters.
func isPending(d *site.Node, f site.Facet, seen site.FacetState) bool {
	if f != site.FacetKernel && f != site.FacetConfig || len(seen.Left(d, f)) > 0 || len(seen.Pending) == 0 {
		return false
	}
	for field, want := range item.Values(seen.Resolve(d, f).Items) {
		if seen.Have[field] != want && seen.Pending[field] != want {
			return false
		}
	}
	return true
}

// step makes one facet as designed, as the daemon does after a look.
func step(ctx context.Context, m driver.Machine, d *site.Node, f site.Facet, seen site.Observed) error {
	return m.Apply(ctx, stepFor(d, f, seen), d, nil)
}

// stepFor is the step that makes one facet as designed. Of boot actions it asks for those that are not
// done, and once more for the last attempt of one that is.
func stepFor(d *site.Node, f site.Facet, seen site.Observed) site.Step {
	owned, _ := seen.OwnedDigest()
	s := site.Step{Node: d.Name, Facet: f, Action: site.Facets[f].Change.Action, Remove: seen.Facets[f].Left(d, f), Owned: owned}
	for _, i := range seen.Facets[f].Resolve(d, f).Items {
		if item.Kind(i.Key) == item.KindUnlisted { // the step alone names these
			s.Changes = append(s.Changes, site.Change{Field: string(f) + "." + i.Key, Want: i.Fields[""]})
		}
	}
	if site.Facets[f].Once {
		s.Once = &item.Once{Installation: seen.Facets[f].Have[item.Installation]}
		for _, i := range d.Items(f) {
			is, attempts := plan.OnceIs(f, i.Key, site.Memory{Observed: seen})
			if is != item.Done && is != item.Running {
				attempts++
			}
			s.Once.Attempt = attempts
			s.Changes = append(s.Changes, site.Change{Field: string(f) + "." + i.Key, Want: item.Done})
		}
	}
	return s
}

// mostSteps bounds how many steps one design may take.
const mostSteps = 12

// converge looks, takes a step and looks again, until all is as designed. It tells how
// many steps were taken.
func (n *node) converge(d *site.Node) (steps int, err error) {
	n.t.Helper()
	m := n.open(n.t)
	defer m.Close()
	var last error
	for range mostSteps {
		seen, err := look(n.t.Context(), n, m, d)
		if err != nil {
			return steps, fmt.Errorf("look: %w", err)
		}
		f := differing(d, seen, site.InsideFacets)
		if f == "" {
			return steps, nil
		}
		steps++
		began := time.Now()
		if last = step(n.t.Context(), m, d, f, seen); last != nil {
			last = fmt.Errorf("%s: %w", f, last)
		} else {
			last = fmt.Errorf("%s was set, and before: %v", f, plan.Differs(d, f, seen.Facets[f]))
		}
		if testing.Verbose() {
			n.t.Logf("%s took %s: %v", f, time.Since(began).Round(time.Millisecond), last)
		}
	}
	return steps, fmt.Errorf("not as designed after %d steps: %w", steps, last)
}

func (n *node) converges(d *site.Node) (steps int) {
	n.t.Helper()
	steps, err := n.converge(d)
	if err != nil {
		n.t.Fatalf("%v\nthe design: %s", err, told(d))
	}
	return steps
}
