package blank

import (
	"crypto/sha256"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/tests/nspawn"
)

// The site of the incident: one computer that Slipway installs, and two running systems whose BMCs are simulated. They
// share secrets, as servers of one site do.
var (
	publicKey    = regexp.MustCompile(`ssh-ed25519 [A-Za-z0-9+/=]+`)
	siteKey      = regexp.MustCompile(`ed25519:[A-Za-z0-9+/=]+`)
	ageRecipient = regexp.MustCompile(`age1[a-z0-9]+`)
	addressOf    = map[string]string{"web-1": "10.5.0.10", "web-2": "10.5.0.11", "web-3": "10.5.0.12"}
	bmcOf        = map[string]string{"web-1": "127.9.0.1", "web-2": "127.9.0.2", "web-3": "127.9.0.3"}
	everyone     = []string{"web-1", "web-2", "web-3"}
	theOthers    = []string{"web-2", "web-3"}
)

// The site's name, and the node that somebody else was in.
const siteName, compromised = "blank", "web-1"

const incidentFleet = `{"folder": %q, "machines": [
 {"name": "web-1", "bmcAddr": "127.9.0.1", "osAddr": "127.10.0.1", "username": "admin", "password": "the-right-one",
  "identity": {"uuid": "5e1d0000-0000-4000-8000-000000000001", "serial": "WEB1"}, "memoryGiB": 2, "processors": 2, "power": "off",
  "parts": {"macs": ["02:00:5e:00:53:01"]},
  "real": {"firmware": "uefi", "taps": ["tap0"], "drives": [{"bus": "nvme", "mib": 24576, "serial": "WEB1-A"}]}},
 {"name": "web-2", "bmcAddr": "127.9.0.2", "osAddr": "127.10.0.2", "username": "admin", "password": "the-right-one",
  "identity": {"uuid": "5e1d0000-0000-4000-8000-000000000002", "serial": "WEB2"}, "power": "on"},
 {"name": "web-3", "bmcAddr": "127.9.0.3", "osAddr": "127.10.0.3", "username": "admin", "password": "the-right-one",
  "identity": {"uuid": "5e1d0000-0000-4000-8000-000000000003", "serial": "WEB3"}, "power": "on"}]}`

// incidentDesign is the site but for what changes in it.
const incidentDesign = `package blank

import "github.com/slipway-gitops/slipway/schema"

networks: lan: schema.#Network & {cidr: "10.5.0.0/24", gateway: "10.5.0.1"}
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
	role: "web", rack: "r1", power: "on"
	endpoints: manager: trust: ca: _ca
	endpoints: os: credential: "os"
	system: {
		ssh: accounts: ["ops"]
		certificates: web: usage: "both"
		files: "/srv/deploy-key": {credential: "deploy-key", owner: "deploy"}
		users: {
			ops: {keys: [%[3]q], sudo: true, shell: "/bin/bash"}
			deploy: {keys: [_deploy], password: "deploy-password", shell: "/bin/bash"}
		}
	}
}
nodes: "web-1": schema.#Layer & {
	profiles: ["web"]
	image: "debian12"
	identity: {uuid: "5e1d0000-0000-4000-8000-000000000001", serial: "WEB1"}
	addresses: lan: "10.5.0.10"
	endpoints: manager: url: "redfish+https://127.9.0.1:18443/redfish/v1/Systems/1"
	endpoints: os: url: "ssh://10.5.0.10:22"
	primaryNetwork: "lan"
	interfaces: eno1: {mac: "02:00:5e:00:53:01", networks: ["lan"]}
	system: hostname: "web-1"
	kernel: parameters: console: "ttyS0,115200"
	storage: {
		erase:    "secure"
		bootDisk: "system"
		disks: system: {
			match: kind: "nvme"
			partitions: {
				efi: {number: 1, size: "256MiB", flag: "efi", filesystem: {type: "vfat", mount: "/boot/efi"}}
				root: {number: 2, size: "20GiB", filesystem: mount: "/"}
			}
		}
	}
}
nodes: "web-2": schema.#Layer & {
	profiles: ["web"]
	identity: {uuid: "5e1d0000-0000-4000-8000-000000000002", serial: "WEB2"}
	endpoints: manager: url: "redfish+https://127.9.0.2:18443/redfish/v1/Systems/1"
	endpoints: os: {url: "ssh://10.5.0.11:22", trust: hostKeys: [%[4]q]}
}
nodes: "web-3": schema.#Layer & {
	profiles: ["web"]
	identity: {uuid: "5e1d0000-0000-4000-8000-000000000003", serial: "WEB3"}
	endpoints: manager: url: "redfish+https://127.9.0.3:18443/redfish/v1/Systems/1"
	endpoints: os: {url: "ssh://10.5.0.12:22", trust: hostKeys: [%[5]q]}
}
_ca: """
%[6]s
"""
`

// designed is a world with the site of the incident.
type designed struct {
	*world
	stage   stage
	public  string // the site key's public half
	systems map[string]*nspawn.System
}

// stage is what changes in the design from commit to commit.
type stage struct {
	manager    string // the credential by which Slipway logs in to BMCs
	bmcEpoch   int    // of the derived passwords
	ssh, tls   []int  // the epochs of the authorities that nodes trust; the last one is that of before where it does not sign yet
	signs      int    // the epoch that signs
	deploy     string // the public key that opens the account deploy
	generation int    // of web-1
	incident   string
}

// write writes the part of the design that changes.
func (w *designed) stages() {
	t, s := w.t, w.stage
	t.Helper()
	quoted := func(list []string) string {
		for i := range list {
			list[i] = fmt.Sprintf("%q", list[i])
		}
		return strings.Join(list, ", ")
	}
	var users, hosts, tls []string
	for _, epoch := range s.ssh {
		all := publicKey.FindAllString(w.slipway("site", "ssh-authority", siteName, "--site-key", w.at("site.key"), "--epoch", fmt.Sprint(epoch)), -1)
		if len(all) != 2 {
			t.Fatalf("there are %d authorities for SSH in epoch %d", len(all), epoch)
		}
		users, hosts = append(users, all[0]), append(hosts, all[1])
	}
	for _, epoch := range s.tls {
		tls = append(tls, w.slipway("site", "tls-authority", siteName, "--site-key", w.at("site.key"), "--epoch", fmt.Sprint(epoch))+"\n")
	}
	w.write("work/stage.cue", fmt.Sprintf(`package blank

import "github.com/slipway-gitops/slipway/schema"

site: schema.#Site & {
	schema: "v1alpha2"
	keys: [%q]
	rollout: {observeEvery: "15s", pollEvery: "2s", reportEvery: "2s", firstContact: "repair", maxUnavailable: "2"}
	ssh: {users: [%s], hosts: [%s], epoch: %d}
	tls: {authorities: [%s], epoch: %[4]d}
}
credentials: {
	bmc: {}
	os: {}
	"bmc-own": {from: "derived", account: "slipway", epoch: %[6]d}
	"deploy-key": from: "sealed"
	"deploy-password": from: "sealed"
}
profiles: web: {
	endpoints: manager: credential: %[7]q
	bmc: accounts: {admin: {role: "administrator", credential: "bmc"}, slipway: {role: "administrator", credential: "bmc-own"}}
}
nodes: "web-1": generation: %[8]d
_deploy: %[9]q
%[10]s
`, w.public, quoted(users), quoted(hosts), s.signs, quoted(tls), s.bmcEpoch, s.manager, s.generation, s.deploy, s.incident))
}

// commits pushes what is in the working folder, and gives the commit.
func (w *designed) commits(message string) string {
	w.t.Helper()
	w.slipway("check", w.at("work"))
	return w.does("sh", "-ec", `cd work; git add -A; git commit -qm "$0"; git push -q ../site.git HEAD:main; git rev-parse HEAD`, message)
}

// bmcFile is the file of the factory's login with a password.
func (w *designed) bmcFile(password string) {
	w.t.Helper()
	w.write("credentials/bmc.new", "hosts: 127.9.0.0/16\nuse: redfish\nports: 18443\nusername: admin\n\n"+password+"\n")
	check(w.t, os.Rename(w.at("credentials/bmc.new"), w.at("credentials/bmc")))
}

// seals encrypts a secret for the daemon.
func (w *designed) seals(name, use, value string) {
	w.t.Helper()
	w.does("sh", "-ec", `printf '%s\n' "$1" | "$0" secret set "$2" work --identity secrets.key --hosts 10.5.0.0/24 --use "$3" --yes`, w.at("bin/slipway"), value, name, use)
}

// builds makes the programs, the image and the two systems.
func (w *designed) builds() {
	w.t.Helper()
	w.build()
	for _, name := range theOthers {
		check(w.t, os.Mkdir(w.at(name), 0o755))
		nspawn.UnpackTo(w.t, w.at(name), nspawn.Suite{}, "sudo")
	}
}

// prepares makes the keys, the network, the two running systems and the repository.
func (w *designed) prepares() {
	t := w.t
	t.Helper()
	w.does("sh", "-ec", `mkdir -p /run/netns; mount -t tmpfs none /run/netns # the names are of this run alone
ip link set lo up; ip link add br0 type bridge; ip addr add 10.5.0.1/24 dev br0; ip link set br0 up
ip tuntap add dev tap0 mode tap; ip link set tap0 master br0 up
for n in 2 3; do
	ip netns add web-$n; ip -n web-$n link set lo up
	ip link add port$n type veth peer name sys$n netns web-$n; ip link set port$n master br0 up
	ip -n web-$n addr add 10.5.0.1$((n - 1))/24 dev sys$n; ip -n web-$n link set sys$n up
done`)
	for _, name := range []string{"key", "deploy-1", "deploy-2", "intruder"} {
		w.does("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", w.at(name))
	}
	read := func(name string) string {
		text, err := os.ReadFile(w.at(name))
		check(t, err)
		return strings.TrimSpace(string(text))
	}
	keys := map[string]string{}
	for _, name := range theOthers {
		system := nspawn.Start(t, w.at(name), nspawn.Network("--network-namespace-path=/run/netns/"+name))
		w.systems[name] = system
		system.Does("useradd -m -s /bin/bash ops; install -d -m 700 -o ops -g ops /home/ops/.ssh; echo 'ops ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/ops")
		system.Does("echo '" + read("key.pub") + "' >/home/ops/.ssh/authorized_keys; chown ops:ops /home/ops/.ssh/authorized_keys")
		system.Does("rm -f /etc/ssh/ssh_host_*; ssh-keygen -q -A; systemctl restart ssh") // the image has keys, the same for both
		keys[name] = publicKey.FindString(system.Does("cat /etc/ssh/ssh_host_ed25519_key.pub"))
	}
	w.bmcFile(firstPassword)
	w.write("credentials/bmc-own", "hosts: 127.9.0.0/16\nuse: redfish\nports: 18443\n")
	w.write("credentials/os", "hosts: 10.5.0.0/24\nuse: ssh\nusername: ops\n\n"+read("key")+"\n")
	w.write("fleet.json", fmt.Sprintf(incidentFleet, w.at("drives")))
	ca := w.does(w.at("bin/slipway-lab"), "ca")
	w.write("bmc-ca.pem", ca+"\n")
	image, err := os.ReadFile(w.at("images/web-amd64.tar.zst"))
	check(t, err)
	w.write("work/cue.mod/module.cue", "module: \"example.org/site\"\nlanguage: version: \"v0.17.1\"\n")
	w.write("work/site.cue", fmt.Sprintf(incidentDesign, w.folder, fmt.Sprintf("%x", sha256.Sum256(image)), read("key.pub"), keys["web-2"], keys["web-3"], ca))
	w.stage.deploy = read("deploy-1.pub")
	w.public = siteKey.FindString(w.slipway("site", "init-key", "--site-key", w.at("site.key")))
	w.stages()
	made := w.slipway("secret", "identity", "--identity", w.at("secrets.key"))
	w.does(w.at("bin/slipway"), "secret", "recipients", "add", ageRecipient.FindString(made), "--name", "host", "work")
	w.seals("deploy-key", "file", read("deploy-1"))
	w.seals("deploy-password", "account", firstDeploy)
	w.does("sh", "-ec", `cd work; git init -q -b main; git config user.name Ana; git config user.email ana@example.org; git add -A; git commit -qm "the site"
git clone -q --bare . ../site.git; mkdir ../state`)
	w.slipway("check", w.at("work"))
}

// since is a moment before the incident, in the form of the design.
func since() string { return time.Now().Add(-time.Hour).UTC().Format("2006-01-02T15:04:05Z") }

// The passwords before and after.
const (
	firstPassword, nextPassword = "the-right-one", "after-the-break-in-1"
	firstDeploy, nextDeploy     = "Deploy-before-77", "Deploy-after-88"
)
