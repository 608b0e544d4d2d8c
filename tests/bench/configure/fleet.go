package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/slipway-gitops/slipway/tests/bench/rig"
)

//go:embed system.sh
var recipe []byte

// fleet is hosts with systemd and sshd, each in namespaces of its own and with its
// own file system over a common one, on one bridge.
type fleet struct {
	dir     string
	hosts   []*host
	watches []byte // the host's bound on inotify as it was
}

type host struct {
	name, address, root string
	cmd                 *exec.Cmd
	said                bytes.Buffer
}

// address is that of host i on the bridge.
func address(i int) string { return fmt.Sprintf("10.77.%d.%d", i/250+1, i%250+1) }

// boot starts hosts in whose file system a public key logs in as root. The network
// namespace that it is called in becomes theirs: it must be empty.
func boot(dir string, count int, publicKey string) (*fleet, error) {
	f := &fleet{dir: dir}
	base := filepath.Join(dir, "base")
	for _, step := range []func() error{
		func() error { return unpack(base) },
		func() error { return admit(base, publicKey) },
		func() error { return run("ip", "link", "set", "lo", "up") },
		func() error { return run("ip", "link", "add", "br0", "type", "bridge") },
		func() error { return run("ip", "addr", "add", "10.77.0.1/16", "dev", "br0") },
		func() error { return run("ip", "link", "set", "br0", "up") },
	} {
		if err := step(); err != nil {
			return f, err
		}
	}
	if err := f.allowWatches(count); err != nil {
		return f, err
	}
	for i := range count {
		if err := f.start(i, base); err != nil {
			return f, err
		}
	}
	for _, h := range f.hosts {
		if err := h.answers(time.Now().Add(3 * time.Minute)); err != nil {
			return f, err
		}
	}
	return f, nil
}

// ownNetworkNames gives the bench a folder of its own for the names of network
// namespaces: those that an earlier run left do not matter then.
func ownNetworkNames() error {
	if err := os.MkdirAll("/run/netns", 0o755); err != nil {
		return err
	}
	return syscall.Mount("tmpfs", "/run/netns", "tmpfs", 0, "mode=755")
}

// debian makes a tar of a system with systemd, sshd and what Ansible needs, once.
// It needs the network of the host.
func debian() (tar string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	tar = filepath.Join(cache, "slipway", "bench-configure.tar")
	if _, err := os.Stat(tar); !errors.Is(err, os.ErrNotExist) {
		return tar, err
	}
	rig.Progress("making a Debian, once")
	script := filepath.Join(filepath.Dir(tar), "system.sh")
	if err := os.MkdirAll(filepath.Dir(tar), 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(script, recipe, 0o700); err != nil {
		return "", err
	}
	return tar, run("bash", script, tar)
}

// unpack makes the common file system.
func unpack(base string) error {
	tar, err := debian()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(base, 0o755); err != nil {
		return err
	}
	return run("tar", "-xf", tar, "-C", base)
}

// admit lets a key in, with as many logins at once as there are.
func admit(base, publicKey string) error {
	return rig.Write(base, map[string]string{
		"root/.ssh/authorized_keys":        publicKey,
		"etc/ssh/sshd_config.d/bench.conf": "PermitRootLogin prohibit-password\nStrictModes no\nUseDNS no\nLogLevel VERBOSE\nMaxStartups 100\n",
	})
}

// link is the end of host i's link that is on the bridge.
func link(i int) string { return fmt.Sprintf("v%d", i) }

// start boots one host over the common file system.
func (f *fleet) start(i int, base string) error {
	h := &host{name: rig.NodeName(i), address: address(i)}
	dir := filepath.Join(f.dir, h.name)
	h.root = filepath.Join(dir, "root")
	for _, d := range []string{"upper", "work", "root"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", base, filepath.Join(dir, "upper"), filepath.Join(dir, "work"))
	if err := syscall.Mount("overlay", h.root, "overlay", 0, options); err != nil {
		return fmt.Errorf("mount an overlay: %w", err)
	}
	for _, args := range [][]string{
		{"netns", "add", h.name},
		{"link", "add", link(i), "type", "veth", "peer", "name", "host0", "netns", h.name},
		{"link", "set", link(i), "master", "br0", "up"},
		{"-n", h.name, "addr", "add", h.address + "/16", "dev", "host0"},
		{"-n", h.name, "link", "set", "host0", "up"},
		{"-n", h.name, "link", "set", "lo", "up"},
	} {
		if err := run("ip", args...); err != nil {
			return err
		}
	}
	h.cmd = exec.Command("systemd-nspawn", "--quiet", "--directory="+h.root, "--boot", "--register=no", "--keep-unit", "--console=pipe",
		"--machine="+h.name, "--capability=CAP_NET_ADMIN,CAP_NET_RAW", "--network-namespace-path=/run/netns/"+h.name)
	h.cmd.Env = append(os.Environ(), "SYSTEMD_NSPAWN_API_VFS_WRITABLE=network") // parameters of its own network
	h.cmd.Stdout, h.cmd.Stderr = &h.said, &h.said
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	f.hosts = append(f.hosts, h)
	return h.cmd.Start()
}

// answers waits until sshd greets.
func (h *host) answers(until time.Time) error {
	for {
		c, err := net.DialTimeout("tcp", h.address+":22", time.Second)
		if err == nil {
			c.SetDeadline(time.Now().Add(5 * time.Second))
			greeting := make([]byte, 4)
			_, err = c.Read(greeting)
			c.Close()
			if err == nil && string(greeting) == "SSH-" {
				return nil
			}
		}
		if time.Now().After(until) {
			return fmt.Errorf("%s does not answer: %v\n%s", h.name, err, h.said.String())
		}
		time.Sleep(200 * time.Millisecond) // until it listens
	}
}

// inotifyInstances is the kernel's bound for one user. All hosts' root is ours, and
// systemd and its services have a dozen in each; Linux allows 128.
const inotifyInstances = "/proc/sys/fs/inotify/max_user_instances"

// allowWatches raises that bound while the hosts run.
func (f *fleet) allowWatches(hosts int) (err error) {
	if f.watches, err = os.ReadFile(inotifyInstances); err != nil {
		return err
	}
	return os.WriteFile(inotifyInstances, []byte(strconv.Itoa(128+24*hosts)), 0)
}

// kill ends a host with all that runs in it: systemd-nspawn ends when its first process
// does, which would outlive it.
func (h *host) kill() {
	if pid, err := strconv.Atoi(h.first()); err == nil {
		syscall.Kill(pid, syscall.SIGKILL)
	} else {
		h.cmd.Process.Kill()
	}
}

// first is the number of the first process in the host; empty while there is none.
func (h *host) first() string {
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", h.cmd.Process.Pid))
	if all := strings.Fields(string(children)); err == nil && len(all) > 0 {
		return all[0]
	}
	return ""
}

// close ends the hosts.
func (f *fleet) close() {
	if f.watches != nil {
		defer os.WriteFile(inotifyInstances, f.watches, 0)
	}
	for i, h := range f.hosts {
		if h.cmd.Process != nil {
			h.kill()
			h.cmd.Wait()
		}
		run("ip", "link", "del", link(i)) // the kernel ends a namespace, and links with it, some time later
		syscall.Unmount(h.root, syscall.MNT_DETACH)
		run("ip", "netns", "del", h.name)
	}
	run("ip", "link", "del", "br0") // the next fleet makes its own
}

func run(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
