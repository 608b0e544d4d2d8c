package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

var blank = play{openBlank, "\n  A site of two servers with nothing on their disks, on this computer. It takes half an hour on two cores.\n" +
	"  Real: slipway, Git, the agent and its ramdisk, UEFI firmware, the Debian that is installed, and its SSH.\n" +
	"  Simulated: the BMCs, and by QEMU the machines, whose emulated processors are why they are slow.\n\n",
	[]act{
		{"check", "is the design sound?", check},
		{"plan", "what would be done, and what would be lost?", plan},
		{"approval", "the machines are met; nothing is erased before a person says so", meetBlank},
		{"installation", "each boots Slipway's agent from its BMC's medium, which makes the disks and the system", installBlank},
		{"inside", "what do the systems' own programs say?", insideBlank},
		{"status", "what is left in Git", status},
	}}

func meetBlank(ctx context.Context, s *stage) error {
	var err error
	if s.lab, err = s.start("slipway-lab", "run", "--fleet", "fleet.json", "--bmc-port", "18443", "--control", labSocket); err != nil {
		return err
	}
	if err := s.labReady(ctx); err != nil {
		return err
	}
	if err := s.startDaemon("--artifact-listen", ":9480", "--artifact-files", s.built, "--ramdisk", filepath.Join(s.built, ramdiskName)); err != nil {
		return err
	}
	var waiting site.Status
	err = s.until(ctx, "both servers waiting for approval", s.patience, func(r *site.Report) bool {
		waiting = r.Status
		return r.Status.Counts()[site.Blocked] == s.nodes && len(r.Status.Waiting) == s.nodes && r.Status.Approve != ""
	})
	if err != nil {
		return err
	}
	s.show.proof("both wait for a person:")
	for _, w := range waiting.Waiting {
		s.show.answer(nodeLine(&waiting, w.Node))
	}
	return s.tell(ctx, "slipway", "approve", waiting.Approve)
}

func installBlank(ctx context.Context, s *stage) error {
	if err := s.follow("slipway-lab", "console", "db-1", "--follow", "--control", labSocket); err != nil {
		return err
	}
	defer s.unfollow()
	stages := map[string]string{}
	err := s.until(ctx, "both servers in-sync", s.patience, func(r *site.Report) bool {
		for _, n := range r.Status.Nodes {
			if text, stage := stageOf(n); stage != "" && stage != stages[n.Name] {
				stages[n.Name] = stage
				s.show.step("· ", n.Name+"  "+text)
			}
		}
		return r.Status.Counts()[site.InSync] == s.nodes
	})
	if err != nil {
		return err
	}
	s.show.proof("2 of 2 in-sync")
	return nil
}

// stageOf is where a node is, as a text and without the figures in it that rise. It is empty for
// a node to which nothing is done.
func stageOf(n site.NodeStatus) (text, stage string) {
	switch n.State {
	case site.InSync:
		return string(site.InSync), string(site.InSync)
	case site.Progressing:
	default:
		return "", ""
	}
	text = figures.ReplaceAllString(cmp.Or(n.Detail, n.Reason), "")
	if step, values, _ := strings.Cut(text, ": "); strings.Contains(values, "→") {
		text = step
	}
	words := slices.DeleteFunc(strings.Fields(text), func(word string) bool { return strings.ContainsAny(word, "0123456789%") })
	return text, strings.Join(words, " ")
}

// figures are how long something takes already, and how long it may take.
var figures = regexp.MustCompile(`, [0-9hms]+ of at most [0-9hms]+$`)

// looks are what the systems are asked.
var looks = map[string][]string{
	"db-1":  {"cat /etc/motd", "lsblk -o NAME,SIZE,TYPE,FSTYPE,MOUNTPOINTS", "cat /proc/mdstat", "cat /proc/sys/vm/swappiness", "sudo efibootmgr", "systemctl is-system-running"},
	"web-1": {"cat /etc/motd", "lsblk -o NAME,SIZE,TYPE,FSTYPE,MOUNTPOINTS", "ip -brief address show eno1", "systemctl is-system-running"},
}

// insideBlank asks by OpenSSH's own client, with the host keys that were made on the machines.
func insideBlank(ctx context.Context, s *stage) error {
	known := ""
	all := s.known(ctx)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, key := range all[name].Recorded.HostKeys() {
			known += serverAddresses[name] + " " + key + "\n"
		}
	}
	if err := os.WriteFile("known_hosts", []byte(known), 0o600); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(looks)) {
		for _, words := range looks[name] {
			s.show.command("ssh ops@" + name + " " + words)
			out, err := exec.CommandContext(ctx, "ssh", "-n", "-F", "none", "-i", "key", "-o", "BatchMode=yes", "-o", "UserKnownHostsFile=known_hosts", "-o", "StrictHostKeyChecking=yes",
				"-o", "LogLevel=ERROR", "ops@"+serverAddresses[name], words).CombinedOutput()
			for line := range strings.Lines(strings.TrimSpace(string(out))) {
				s.show.quote(strings.TrimRight(line, " \n"))
			}
			if err != nil {
				return fmt.Errorf("ask %s for %s: %w", name, words, err)
			}
		}
	}
	return nil
}

// serverAddresses are those of the example.
var serverAddresses = map[string]string{"db-1": "10.5.0.11", "web-1": "10.5.0.21"}

// openBlank is a stage with the site of two servers in a repository, in a network of its own in
// which their ports are.
func openBlank(show *screen, keep bool) (*stage, error) {
	s := &stage{show: show, keep: keep, branch: "slipway/status/blank", nodes: len(serverAddresses), patience: 90 * time.Minute, built: os.Getenv(inNetwork)}
	if err := s.enter("blank", "slipway", "slipway-lab"); err != nil {
		return s, err
	}
	private, public, err := makeKey()
	if err != nil {
		return s, err
	}
	design, err := s.server(public)
	if err != nil {
		return s, err
	}
	const account = "hosts: %s\nuse: %s\nports: %s\nusername: %s\n\n%s\n"
	hurry := pace("20s")
	hurry["maxUnavailable"] = `"2"`
	err = errors.Join(
		os.Mkdir(credentials, 0o700),
		os.WriteFile(credentials+"/bmc", fmt.Appendf(nil, account, "127.9.0.0/16", "redfish", "18443", "admin", bmcPassword), 0o600),
		os.WriteFile(credentials+"/os", fmt.Appendf(nil, account, "10.5.0.0/24", "ssh", "22", "ops", private), 0o600),
		os.WriteFile("key", []byte(private), 0o600),
		os.WriteFile("fleet.json", fmt.Appendf(nil, servers, filepath.Join(s.dir, "drives"), bmcPassword), 0o600),
		os.WriteFile("site/lab.cue", []byte(design), 0o644),
		setFields("site/site.cue", hurry),
		layNetwork())
	if err != nil {
		return s, err
	}
	if _, err := s.run(context.Background(), "git", "init", "-q", "--bare", "-b", "main", "site.git"); err != nil {
		return s, err
	}
	return s, s.makeRepository("Two blank servers")
}

// server is the part of the design that says where everything is.
func (s *stage) server(public string) (string, error) {
	authority, err := s.run(context.Background(), "slipway-lab", "ca")
	if err != nil {
		return "", err
	}
	image := filepath.Join(s.built, imageName)
	content, err := os.ReadFile(image)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(where, image, sha256.Sum256(content), public, strings.ReplaceAll(strings.TrimSpace(authority), "\n", "\n\t")), nil
}

// where is the example's lab.cue for the demo.
const where = `package blank

images: debian12: {
	kind:           "root"
	family:         "debian"
	url:            "file://%s"
	sha256:         "%x"
	installTimeout: "90m"
}

profiles: server: {
	endpoints: manager: trust: ca: _authority
	kernel: parameters: console: "ttyS0,115200"
	system: users: ops: {keys: [%q], sudo: true, shell: "/bin/bash"}
}

nodes: {
	"db-1": endpoints: manager: url:  "redfish+https://127.9.0.1:18443/redfish/v1/Systems/1"
	"web-1": endpoints: manager: url: "redfish+https://127.9.0.2:18443/redfish/v1/Systems/1"
}

_authority: """
	%s
	"""
`

const bmcPassword = "the-right-one"

// servers are the machines of the example, each a computer that QEMU emulates behind a BMC.
const servers = `{"folder": %q, "machines": [
 {"name": "db-1", "bmcAddr": "127.9.0.1", "osAddr": "127.10.0.1", "username": "admin", "password": %[2]q,
  "identity": {"uuid": "5e1d0000-0b00-4000-8000-000000000001", "serial": "BL101"}, "memoryGiB": 2, "processors": 2, "power": "off", "parts": {"macs": ["02:00:5e:00:53:11"]},
  "real": {"firmware": "uefi", "taps": ["tap0"], "drives": [{"bus": "nvme", "mib": 49152, "serial": "BL101-LEFT"}, {"bus": "nvme", "mib": 49152, "serial": "BL101-RIGHT"}]}},
 {"name": "web-1", "bmcAddr": "127.9.0.2", "osAddr": "127.10.0.2", "username": "admin", "password": %[2]q,
  "identity": {"uuid": "5e1d0000-0b00-4000-8000-000000000002", "serial": "BL102"}, "memoryGiB": 2, "processors": 2, "power": "off", "parts": {"macs": ["02:00:5e:00:53:21"]},
  "real": {"firmware": "uefi", "taps": ["tap1"], "drives": [{"bus": "nvme", "mib": 32768, "serial": "BL102-DISK"}]}}]}`

// layNetwork plugs the ports of the servers into one bridge, on which this host has an address.
func layNetwork() error {
	for _, words := range []string{
		"link set lo up", "link add br0 type bridge", "addr add 10.5.0.1/24 dev br0", "link set br0 up",
		"tuntap add dev tap0 mode tap", "link set tap0 master br0 up", "tuntap add dev tap1 mode tap", "link set tap1 master br0 up",
	} {
		if out, err := exec.Command("ip", strings.Fields(words)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", words, err, out)
		}
	}
	return nil
}
