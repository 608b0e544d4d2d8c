package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	gossh "golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
	"github.com/slipway-gitops/slipway/tests/bench/rig"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// The times that the daemon may take: to read the disks of all machines, which approvals name,
// and to have all of them armed, where an agent that has not called after a quarter of an hour
// is given up.
const readWithin, armedWithin = 30 * time.Minute, 14 * time.Minute

// keepSite runs the daemon on a site of blank machines whose BMCs are simulated, approves their
// installation, and prints the number of the daemon's process when all are armed: each was
// switched on by its BMC to start Slipway's agent over the network, and waits for that. What
// they are to start is noise of some bytes.
func keepSite(args []string) (err error) {
	if len(args) != 3 {
		return errors.New("a folder, the number of machines and the size of what they boot are needed")
	}
	var count, size int64
	if err := numbers(args[1:], &count, &size); err != nil {
		return err
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM) // it ends when its input is closed, and ends the daemon before
	machines := blankMachines(int(count))
	fleet, err := lab.Start(lab.Config{Seed: rig.Seed, Machines: machines})
	if err != nil {
		return err
	}
	defer fleet.Close()
	fleet.Certify()
	dir := filepath.Join(args[0], "site")
	flags, err := prepareSite(args[0], dir, machines, fleet.BMCPort(), size)
	if err != nil {
		return err
	}
	key, err := newLogin()
	if err != nil {
		return err
	}
	d, err := rig.Follow(dir, "file://"+rig.Repo(dir), map[string]string{
		"bmc": rig.Account("127.0.0.0/8", rig.Password), "os": "hosts: " + prefix + "\nuse: ssh\nusername: ops\n\n" + key,
	}, flags...)
	if err != nil {
		return err
	}
	defer func() { d.Close(err) }()
	if err := arm(d, int(count)); err != nil {
		return err
	}
	if err := tell(d.PID()); err != nil {
		return err
	}
	untilClosed()
	return nil
}

// arm approves the installation of all machines, as soon as all wait for that, and returns when
// all are armed.
func arm(d *rig.Daemon, count int) error {
	var set string
	err := await(d, readWithin, func(s site.Status) bool {
		set = s.Approve
		return len(s.Waiting) == count
	})
	if err != nil {
		return fmt.Errorf("not all machines wait for approval: %w", err)
	}
	if _, err := d.Ask.Do(context.Background(), "", site.Order{Verb: site.VerbApprove, Digest: set, By: "bench"}); err != nil {
		return err
	}
	err = await(d, armedWithin, func(s site.Status) bool {
		armed := 0
		for _, n := range s.Served {
			armed += len(n.Armed)
		}
		return armed == count
	})
	if err != nil {
		return fmt.Errorf("not all machines are armed: %w", err)
	}
	return nil
}

// await asks the daemon for its status until that is as it is to be.
func await(d *rig.Daemon, most time.Duration, is func(site.Status) bool) error {
	until := time.Now().Add(most)
	for {
		r, err := d.Ask.Report(context.Background(), "")
		switch {
		case err == nil && is(r.Status):
			return nil
		case time.Now().After(until):
			why := fmt.Sprint(err)
			if err == nil && len(r.Status.Nodes) > 0 {
				why = r.Status.Nodes[0].Reason
			}
			return fmt.Errorf("after %s the states are %v, the problems %v, the first node: %s", most, r.Status.Counts(), r.Status.Problems, why)
		}
		time.Sleep(2 * time.Second) // asking takes the processors' time too
	}
}

// blankMachines are off, with the MAC addresses of the design.
func blankMachines(count int) []lab.MachineConfig {
	all := rig.Machines(count, "off")
	for i := range all {
		all[i].Power, all[i].Blank, all[i].Parts.MACs = "off", true, []string{machineOf(i).mac.String()}
	}
	return all
}

// prepareSite writes the repository of the site, its image and the medium of the ramdisk, and
// gives the daemon's flags.
func prepareSite(work, dir string, machines []lab.MachineConfig, port int, size int64) (flags []string, err error) {
	images, medium := filepath.Join(work, "images"), filepath.Join(work, "ramdisk.iso")
	for _, folder := range []string{images, dir} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			return nil, err
		}
	}
	image := filepath.Join(images, "root.tar.zst")
	if err := writeNoise(image, 1<<20); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(image)
	if err != nil {
		return nil, err
	}
	if err := writeMedium(medium, size); err != nil {
		return nil, err
	}
	files := map[string]string{
		"cue.mod/module.cue": "module: \"bench.example/site\"\nlanguage: version: \"v0.17.0\"\n",
		"site.cue":           fmt.Sprintf(blankSite, image, sha256.Sum256(text), rig.Text(string(lab.CAPEM(rig.Seed))), port),
		"nodes.cue":          blankNodes(machines),
	}
	return []string{"--netboot", lan + "=lan", "--ramdisk", medium, "--artifact-files", images, "--agents", filepath.Join("bin", "agents")}, rig.Publish(dir, files)
}

const blankSite = `package bench

import "github.com/slipway-gitops/slipway/schema"

site: schema.#Site & {
	schema: "v1alpha2"
	install: {start: "network", trust: "network"}
	rollout: {maxUnavailable: "100%%", pollEvery: "10s", observeEvery: "15s", reportEvery: "30s"}
}
networks: [string]: schema.#Network
networks: {
	bmc: cidr: "127.90.0.0/16"
	lan: {cidr: "10.99.0.0/16", gateway: "10.99.0.1", boot: dhcp: "serve"}
}
credentials: [string]: schema.#Credential
credentials: {bmc: {}, os: {}}
images: debian12: schema.#Image & {kind: "root", url: "file://%[1]s", sha256: "%[2]x", family: "debian"}
roles: server: schema.#Role & {maxUnavailable: "100%%"}
racks: r1: schema.#Rack & {maxUnavailable: "100%%"}
profiles: server: schema.#Profile & {
	role: "server", rack: "r1", power: "on", image: "debian12", generation: 1, primaryNetwork: "lan"
	storage: {
		bootDisk: "system"
		disks: system: {
			match: kind: "nvme"
			partitions: {
				efi: {number: 1, size: "256MiB", flag: "efi", filesystem: {type: "vfat", mount: "/boot/efi"}}
				root: {number: 2, size: ">20GiB", filesystem: mount: "/"}
			}
		}
	}
	endpoints: manager: trust: ca: """
%[3]s
		"""
}
nodes: [string]: schema.#Layer
nodes: [string]: {
	addresses: _
	endpoints: {
		manager: {url: "redfish+https://\(addresses.bmc):%[4]d/redfish/v1/Systems/1", credential: "bmc"}
		os: {url: "ssh://\(addresses.lan):22", credential: "os"}
	}
}
`

func blankNodes(machines []lab.MachineConfig) string {
	var b strings.Builder
	b.WriteString("package bench\n\nnodes: {\n")
	for i, m := range machines {
		is := machineOf(i)
		fmt.Fprintf(&b, "\t%s: {\n\t\tprofiles: [\"server\"]\n\t\tidentity: {uuid: %q, serial: %q}\n\t\taddresses: {bmc: %q, lan: %q}\n\t\tinterfaces: eno1: {mac: %q, networks: [\"lan\"], boot: \"lan\"}\n\t}\n",
			is.name, m.Identity.UUID, m.Identity.Serial, m.BMCAddr, is.address, is.mac)
	}
	b.WriteString("}\n")
	return b.String()
}

// writeMedium makes as much of the ramdisk's medium as the daemon looks at: where its parts are.
// The image is noise.
func writeMedium(path string, size int64) error {
	const words, at = 40 * 2048, 64 * 2048
	head := make([]byte, at)
	copy(head[wire.VolumeAt:], "\x01CD001\x01")
	copy(head[wire.VolumeAt+wire.ApplicationUse:], fmt.Sprintf("%s%d 4096\n%s%d 10\n%s%d %d\n", wire.MediumMark, words, wire.ToolsMark, words+4096, wire.ImageMark, at, size))
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(head)
	if err == nil {
		_, err = io.CopyN(f, rand.Reader, size)
	}
	return errors.Join(err, f.Close())
}

// newLogin is a private key with which no system is ever logged in to.
func newLogin() (string, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", err
	}
	block, err := gossh.MarshalPrivateKey(key, "")
	if err != nil {
		return "", err
	}
	return string(pem.EncodeToMemory(block)), nil
}
