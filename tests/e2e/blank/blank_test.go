// Package blank has a blank machine become what its design says: an emulated computer behind a
// simulated BMC, the programs that people run, a root image that Slipway has built, and nothing
// else.
package blank

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/tests/nspawn"
)

// inFolder names the folder with what was built, to the program that runs in a network of its
// own.
const inFolder = "SLIPWAY_BLANK_FOLDER"

// patience is how long an installation may take on an emulated processor.
const patience = 60 * time.Minute

// world is a bootstrap host with one machine.
type world struct {
	t      *testing.T
	folder string
	// network has the agent start over the network, and from virtual media otherwise.
	network bool
	// encrypted has the disk encrypted, and a TPM that opens it.
	encrypted bool
}

func (w *world) at(name string) string { return filepath.Join(w.folder, name) }

func (w *world) write(name, text string) {
	w.t.Helper()
	check(w.t, os.MkdirAll(filepath.Dir(w.at(name)), 0o755))
	check(w.t, os.WriteFile(w.at(name), []byte(text), 0o600))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// does runs a program in the folder and gives what it prints.
func (w *world) does(name string, args ...string) string {
	w.t.Helper()
	out, err := w.run(name, args...)
	if err != nil {
		w.t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return out
}

func (w *world) run(name string, args ...string) (string, error) {
	cmd := exec.CommandContext(w.t.Context(), name, args...)
	cmd.Dir, cmd.Env = w.folder, append(os.Environ(), "SLIPWAY_AGENTS="+w.at("bin/agents"), "SOURCE_DATE_EPOCH=1760000000")
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (w *world) slipway(args ...string) string {
	w.t.Helper()
	return w.does(w.at("bin/slipway"), args...)
}

// saying is what a program says while it runs.
type saying struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *saying) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *saying) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// keeps starts a program that runs until the test ends, and logs what it says where that fails. It
// gives what it has said so far.
func (w *world) keeps(name string, args ...string) (said func() string) {
	t := w.t
	t.Helper()
	var says saying
	cmd := exec.Command(w.at("bin/"+name), args...)
	cmd.Dir, cmd.Env = w.folder, append(os.Environ(), "SLIPWAY_AGENTS="+w.at("bin/agents"))
	cmd.Stdout, cmd.Stderr = &says, &says
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	check(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = cmd.Wait()
		if t.Failed() {
			text := says.String()
			t.Logf("%s said:\n%s", name, text[max(0, len(text)-8000):])
		}
	})
	return says.String
}

// comes waits until a command prints what matches.
func (w *world) comes(most time.Duration, want string, args ...string) string {
	t := w.t
	t.Helper()
	form, began, last := regexp.MustCompile(want), time.Now(), ""
	for {
		out, _ := w.run(w.at("bin/slipway"), args...) // the daemon may not answer yet
		if form.MatchString(out) {
			t.Logf("%5.0f s: %s", time.Since(began).Seconds(), form.FindString(out))
			return out
		}
		if line := out[strings.LastIndexByte(out, '\n')+1:]; line != last {
			last = line
			t.Logf("%5.0f s: %s", time.Since(began).Seconds(), line)
		}
		if time.Since(began) > most {
			t.Fatalf("slipway %q does not print %q:\n%s\nthe console:\n%s", args, want, out, w.console())
		}
		<-time.After(5 * time.Second)
	}
}

func (w *world) console() string {
	out, _ := w.run(w.at("bin/slipway-lab"), "console", "web-1", "--control", w.at("lab.sock"))
	return out[max(0, len(out)-6000):]
}

// build makes the programs, the ramdisk and the image.
func (w *world) build() {
	w.t.Helper()
	for name, arch := range map[string]string{"slipway": "", "slipway-lab": "", "slipway-helper": "agents/slipway-helper-linux-amd64", "slipway-agent": "agents/slipway-agent-linux-amd64"} {
		to := name
		if arch != "" {
			to = arch
		}
		cmd := exec.CommandContext(w.t.Context(), "go", "build", "-buildvcs=false", "-ldflags", "-s -w", "-o", w.at("bin/"+to), "../../../cmd/"+name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			w.t.Fatalf("build %s: %v\n%s", name, err, out)
		}
	}
	w.slipway("ramdisk", "build", "--out", w.at("ramdisk"))
	of := recipe
	if w.encrypted {
		of = encryptedRecipe
	}
	w.write("web.cue", of)
	w.slipway("image", "build", "web", "--recipe", w.at("web.cue"), "--out", w.at("images"))
}

// recipe is Debian 12 whose initramfs has few modules: to copy all of them takes an emulated
// processor a quarter of an hour.
const recipe = `from: "debian12"
run: [
	"sed -i s/^MODULES=.*/MODULES=list/ /etc/initramfs-tools/initramfs.conf",
	"printf '%s\\n' nvme ext4 vfat ahci sd_mod virtio_net virtio_pci >>/etc/initramfs-tools/modules",
]
`

// The machine: a computer that QEMU emulates, with a disk for its system and one that belongs to
// somebody else.
const fleet = `{"folder": %q, "machines": [{"name": "web-1", "bmcAddr": "127.9.0.1", "osAddr": "127.10.0.1", "username": "admin", "password": "the-right-one",
 "identity": {"uuid": "5e1d0000-0000-4000-8000-000000000001", "serial": "WEB1"}, "memoryGiB": 2, "processors": 2, "power": "off",
 "parts": {"macs": ["02:00:5e:00:53:01"]},
 "real": {"firmware": "uefi", "tpm": %t, "taps": ["tap0"], "drives": [{"bus": "nvme", "mib": 24576, "serial": "WEB1-A"}, {"bus": "sata", "mib": 64, "serial": "WEB1-DATA"}]}}]}`

const design = `package blank

import "github.com/slipway-gitops/slipway/schema"

site: schema.#Site & {
	schema: "v1alpha2"
	rollout: {observeEvery: "30s", pollEvery: "5s", reportEvery: "5s"}
}
networks: lan: schema.#Network & {cidr: "10.5.0.0/24", gateway: "10.5.0.1"}
%[5]s
credentials: {
	bmc: schema.#Credential & {}
	os:  schema.#Credential & {}
}
images: debian12: schema.#Image & {
	kind:           "root"
	url:            "file://%[1]s/images/web-amd64.tar.zst"
	sha256:         %[2]q
	family:         "debian"
	installTimeout: "90m"
}
racks: r1: schema.#Rack & {location: "here"}
roles: web: schema.#Role & {description: "web servers"}
profiles: web: schema.#Profile & {
	role: "web", rack: "r1", power: "on", image: "debian12"
	storage: {
		bootDisk: "system"
		disks: system: {
			match: kind: "nvme"
			partitions: {
				efi: {number: 1, size: "256MiB", flag: "efi", filesystem: {type: "vfat", mount: "/boot/efi"}}
				root: {number: 2, size: "20GiB", filesystem: mount: "/"}
				rest: {number: 3, size: ">1GiB", group: "local"}
			}
		}
		groups: local: volumes: srv: {size: "50%%", filesystem: {type: "xfs", mount: "/srv"}}
	}
}
nodes: "web-1": schema.#Layer & {
	profiles: ["web"]
	identity: {uuid: "5e1d0000-0000-4000-8000-000000000001", serial: "WEB1"}
	addresses: lan: "10.5.0.10"
	generation: 1
	endpoints: {
		manager: {url: "redfish+https://127.9.0.1:18443/redfish/v1/Systems/1", credential: "bmc", trust: ca: _ca}
		os: {url: "ssh://10.5.0.10:22", credential: "os"}
	}
	primaryNetwork: "lan"
	interfaces: eno1: {mac: "02:00:5e:00:53:01", networks: ["lan"]}
	system: {
		hostname: "web-1"
		time: zone: "Europe/Zurich"
		users: ops: {keys: [%[3]q], sudo: true, shell: "/bin/bash"}
		sysctl: "net.ipv4.ip_default_ttl": 70
		files: "/etc/motd": content: "Installed from Git.\n"
	}
	kernel: parameters: console: "ttyS0,115200"
}
_ca: """
%[4]s
"""
`

// overNetwork is what the design has where the agent starts over the network.
const overNetwork = `site: install: {start: "network", trust: "network"}
networks: lan: boot: dhcp: "serve"
nodes: "web-1": interfaces: eno1: boot: "lan"
`

// prepare writes the site and what the host needs to run it.
func (w *world) prepare() {
	t := w.t
	t.Helper()
	w.does("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", w.at("key"))
	read := func(name string) string {
		text, err := os.ReadFile(w.at(name))
		check(t, err)
		return string(text)
	}
	w.write("credentials/bmc", "hosts: 127.9.0.0/16\nuse: redfish\nports: 18443\nusername: admin\n\nthe-right-one\n")
	w.write("credentials/os", "hosts: 10.5.0.0/24\nuse: ssh\nusername: ops\n\n"+read("key"))
	w.write("fleet.json", fmt.Sprintf(fleet, w.at("drives"), w.encrypted))
	ca := w.does(w.at("bin/slipway-lab"), "ca")
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(read("images/web-amd64.tar.zst"))))
	w.write("work/cue.mod/module.cue", "module: \"example.org/site\"\nlanguage: version: \"v0.17.1\"\n")
	starts := ""
	if w.network {
		starts = overNetwork
	}
	if w.encrypted {
		made := w.slipway("site", "init-key", "--site-key", w.at("site.key"))
		starts += encryptedDisk + regexp.MustCompile(`site: keys: .*`).FindString(made) + "\n"
	}
	w.write("work/site.cue", fmt.Sprintf(design, w.folder, sum, strings.TrimSpace(read("key.pub")), ca, starts))
	w.slipway("check", w.at("work"))
	w.does("sh", "-ec", `cd work; git init -q -b main; git config user.name Ana; git config user.email ana@example.org; git add -A; git commit -qm "one blank machine"
git clone -q --bare . ../site.git; mkdir ../state
ip link set lo up; ip tuntap add dev tap0 mode tap; ip link add br0 type bridge; ip link set tap0 master br0; ip link set tap0 up; ip addr add 10.5.0.1/24 dev br0; ip link set br0 up`)
}

// inside is what a command prints in the installed system, over OpenSSH's own client and with the
// host key that the machine has told. Nothing of Slipway is between.
func (w *world) inside(words string) (string, error) {
	return w.run("ssh", "-n", "-F", "none", "-i", w.at("key"), "-o", "BatchMode=yes", "-o", "UserKnownHostsFile="+w.at("known_hosts"), "-o", "StrictHostKeyChecking=yes",
		"-o", "LogLevel=ERROR", "ops@10.5.0.10", words)
}

// TestProveBlankMachine turns a blank machine into the designed server by one commit and one
// approval: its BMC boots Slipway's agent from virtual media, the agent installs, and the
// machine starts from its disk. What it is then is asked of its own programs.
func TestProveBlankMachine(t *testing.T) { installs(t, &world{t: t}) }

// TestProveBlankMachineOverTheNetwork does the same without virtual media: the BMC has the firmware
// boot from the network once, which reads the agent by TFTP, and the network tells the agent where
// the daemon is.
func TestProveBlankMachineOverTheNetwork(t *testing.T) { installs(t, &world{t: t, network: true}) }

func installs(t *testing.T, w *world) {
	if os.Getenv("SLIPWAY_PROVE") == "" {
		t.Skip("builds an image and installs an emulated machine, which takes most of an hour: set SLIPWAY_PROVE")
	}
	if !w.enters(150*time.Minute, w.build, "qemu-system-x86_64", "mmdebstrap", "ssh", "ip") {
		return
	}
	w.prepare()
	w.keeps("slipway-lab", "run", "--fleet", w.at("fleet.json"), "--bmc-port", "18443", "--control", w.at("lab.sock"))
	args := []string{"run", "--repo", w.at("site.git"), "--state", w.at("state"), "--credentials", w.at("credentials"),
		"--ramdisk", w.at("ramdisk/slipway-ramdisk-amd64.iso"), "--artifact-files", w.at("images")}
	if w.network {
		args = append(args, "--netboot", "br0=lan")
	}
	said := w.keeps("slipway", args...)

	out := w.comes(5*time.Minute, `slipway approve [0-9a-f]{32}`, "status", "--state", w.at("state"))
	set := regexp.MustCompile(`slipway approve ([0-9a-f]{32})`).FindStringSubmatch(out)[1]
	foreign := filepath.Join(w.at("drives"), "web-1", "drive2")
	before, err := os.ReadFile(foreign)
	check(t, err)
	w.slipway("approve", set, "--state", w.at("state"))
	w.comes(patience, `1/1 in-sync`, "status", "--state", w.at("state"))

	after, err := os.ReadFile(foreign)
	check(t, err)
	if !bytes.Equal(before, after) {
		t.Error("the disk that the design does not name was written to")
	}
	if w.network {
		w.startedOverNetwork(said())
	}
	w.looksRight()
	w.writesNothing()
	if w.encrypted {
		w.opensAlone()
		w.staysShut()
	}
}

// enters runs the test again in a network and with mounts of its own, after what it needs was built, and reports whether this is that
// run. The outer run has nothing else to do.
func (w *world) enters(most time.Duration, build func(), needs ...string) bool {
	t := w.t
	t.Helper()
	if w.folder = os.Getenv(inFolder); w.folder != "" {
		return true
	}
	nspawn.Require(t, needs...)
	w.folder = t.TempDir()
	build()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", fmt.Sprintf("-test.timeout=%s", most))
	cmd.Env = append(os.Environ(), inFolder+"="+w.folder)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Unshareflags: syscall.CLONE_NEWNS}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	check(t, cmd.Run())
	return false
}

// startedOverNetwork holds that the machine has read the agent over the network, and nothing from
// virtual media.
func (w *world) startedOverNetwork(said string) {
	w.t.Helper()
	if !regexp.MustCompile(`boot file was read.* node=web-1.* over=tftp`).MatchString(said) {
		w.t.Errorf("the machine has read no boot file; the daemon said:\n%s", said)
	}
	console, _ := w.run(w.at("bin/slipway-lab"), "console", "web-1", "--control", w.at("lab.sock"))
	for _, want := range []string{"The agent was started over the network", "tells that the daemon is at 10.5.0.1:9481", "this machine is the node web-1"} {
		if !strings.Contains(console, want) {
			w.t.Errorf("the console does not say %q", want)
		}
	}
}

// looksRight asks the system's own programs what it is.
func (w *world) looksRight() {
	t := w.t
	t.Helper()
	key := regexp.MustCompile(`ssh-ed25519 [A-Za-z0-9+/=]+`).FindString(w.slipway("why", "web-1", "--state", w.at("state"), "--output", "json"))
	if key == "" {
		t.Fatalf("nobody tells the host key: %s", w.slipway("why", "web-1", "--state", w.at("state"), "--output", "json"))
	}
	w.write("known_hosts", "10.5.0.10 "+key+"\n")
	for words, want := range map[string]string{
		"hostname":                                    `^web-1$`,
		"cat /etc/motd":                               `^Installed from Git\.$`,
		"readlink -f /etc/localtime":                  `^/usr/share/zoneinfo/Europe/Zurich$`,
		"cat /proc/sys/net/ipv4/ip_default_ttl":       `^70$`,
		"cat /proc/cmdline":                           `console=ttyS0,115200`,
		"sudo -n id -u":                               `^0$`,
		"findmnt -no SOURCE,FSTYPE /":                 w.rootAs(),
		"findmnt -no FSTYPE /boot/efi":                `^vfat$`,
		"findmnt -no SOURCE,FSTYPE /srv":              `^/dev/mapper/local-srv +xfs$`,
		"ip -brief -4 address show eno1":              `^eno1 +UP +10\.5\.0\.10/24`,
		"ip route show default":                       `via 10\.5\.0\.1 dev eno1`,
		"systemctl is-system-running":                 `^running$`,
		"sudo -n efibootmgr":                          `(?m)^Boot[0-9A-F]{4}\* web-1`,
		"sudo -n cat /etc/slipway/marker.json":        `"generation": ?1`,
		"ls /sys/firmware/efi >/dev/null && echo efi": `^efi$`,
	} {
		got, err := w.inside(words)
		if !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("%s prints %q (%v), want %s", words, got, err, want)
		}
	}
}

// writesNothing holds that the plan of the installed machine has nothing to do.
func (w *world) writesNothing() {
	w.t.Helper()
	var status struct {
		Nodes []struct {
			Name  string `json:"name"`
			State string `json:"state"`
		} `json:"nodes"`
	}
	check(w.t, json.Unmarshal([]byte(w.slipway("status", "--state", w.at("state"), "--output", "json")), &status))
	if len(status.Nodes) != 1 || status.Nodes[0].State != "in-sync" {
		w.t.Errorf("the status is %+v", status)
	}
	w.comes(time.Minute, `(?m)^0 to change|nothing to do|No changes`, "plan", w.at("work"), "--state", w.at("state"))
}
