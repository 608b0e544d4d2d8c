package agent

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	reporting "github.com/slipway-gitops/slipway/sinks/agent/inside/report"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

const detailed = healthy + `
--booted
btime 1795362333

--memory
MemTotal:       24684084 kB
MemFree:        11111111 kB
SwapTotal:        976892 kB

--links
1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN mode DEFAULT group default qlen 1000\    link/loopback 00:00:00:00:00:00 brd 00:00:00:00:00:00
2: eno1: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc mq master bond0 state UP mode DEFAULT group default qlen 1000\    link/ether 02:fc:00:00:00:01 brd ff:ff:ff:ff:ff:ff
3: bond0.5@bond0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc noqueue state UP mode DEFAULT group default\    link/ether 02:fc:00:00:00:01 brd ff:ff:ff:ff:ff:ff
4: eno2: <BROADCAST,MULTICAST> mtu 1500 qdisc noop state DOWN mode DEFAULT group default qlen 1000\    link/ether 02:fc:00:00:00:02 brd ff:ff:ff:ff:ff:ff
9: veth51@if2: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc noqueue master cni0 state UP mode DEFAULT group default\    link/ether 8e:11:22:33:44:55 brd ff:ff:ff:ff:ff:ff link-netnsid 0

--addresses
1: lo    inet 127.0.0.1/8 scope host lo\       valid_lft forever preferred_lft forever
1: lo    inet6 ::1/128 scope host \       valid_lft forever preferred_lft forever
3: bond0.5    inet 10.1.0.11/24 brd 10.1.0.255 scope global dynamic bond0.5\       valid_lft 3000sec preferred_lft 3000sec
3: bond0.5    inet6 2001:db8::11/64 scope global \       valid_lft forever preferred_lft forever
3: bond0.5    inet6 2001:db8::8e11/64 scope global temporary dynamic \       valid_lft 80000sec preferred_lft 70000sec
3: bond0.5    inet6 fe80::1/64 scope link \       valid_lft forever preferred_lft forever
9: veth51    inet6 fe80::2/64 scope link \       valid_lft forever preferred_lft forever

--disks
NAME="sdb" TYPE="disk" SIZE="480103981056" MODEL="MZ7LH480\x20\x22x\x22" SERIAL="S2"
NAME="md0" TYPE="raid1" SIZE="479000000000" MODEL="" SERIAL=""
NAME="sda" TYPE="disk" SIZE="480103981056" MODEL="MZ7LH480" SERIAL="S1"
NAME="md0" TYPE="raid1" SIZE="479000000000" MODEL="" SERIAL=""
NAME="zram0" TYPE="disk" SIZE="0" MODEL="" SERIAL=""

--mounts
Filesystem     Type     1024-blocks     Used Available Capacity Mounted on
devtmpfs       devtmpfs    12334460        0  12334460       0% /dev
/dev/md0       ext4       264212084 18027404  77473860      19% /
/dev/sdc1      xfs            10000     9700       300      97% /srv/two words
/dev/loop0     squashfs       65536    65536         0     100% /snap/core/1

--failed
nginx.service      loaded failed failed A web server
backup.timer       loaded failed failed Backups
--all

`

var detailedInside = site.Inside{
	BootedAt: time.Date(2026, 11, 22, 15, 46, 0, 0, time.UTC), MemoryBytes: 24684084 << 10, SwapBytes: 976892 << 10,
	Links: []site.NetDevice{
		{Name: "eno1", State: "up", MAC: "02:fc:00:00:00:01", MTU: 9000},
		{Name: "bond0.5", State: "up", MAC: "02:fc:00:00:00:01", MTU: 1500, Addresses: []string{"10.1.0.11/24", "2001:db8::11/64"}},
		{Name: "eno2", State: "down", MAC: "02:fc:00:00:00:02", MTU: 1500},
	},
	Disks: []site.Block{
		{Name: "md0", Kind: "raid1", Bytes: 479000000000},
		{Name: "sda", Kind: "disk", Bytes: 480103981056, Model: "MZ7LH480", Serial: "S1"},
		{Name: "sdb", Kind: "disk", Bytes: 480103981056, Model: `MZ7LH480 "x"`, Serial: "S2"},
	},
	Mounts: []site.Mount{
		{Path: "/", Source: "/dev/md0", FileSystem: "ext4", Bytes: 264212084 << 10, Used: 15},
		{Path: "/srv/two words", Source: "/dev/sdc1", FileSystem: "xfs", Bytes: 10000 << 10, Used: 95},
	},
	FailedUnits: []string{"backup.timer", "nginx.service"},
}

func TestInside(t *testing.T) {
	r, ok := parse([]byte(detailed))
	if !ok || r.kernel != "6.1.0-13-amd64" || r.inside == nil {
		t.Fatalf("got %v, %+v", ok, r)
	}
	if diff := cmp.Diff(&detailedInside, r.inside); diff != "" {
		t.Error(diff)
	}
	if r, ok := parse([]byte(healthy)); !ok || r.inside != nil {
		t.Errorf("of a system that tells nothing: got %v, %+v", ok, r.inside)
	}
}

// What is used and where the clock stands changes nothing, up to a point.
func TestInsideStaysAsItIs(t *testing.T) {
	later := strings.NewReplacer("MemFree:        11111111", "MemFree:        22", "18027404  77473860      19%", "16027404  79473860      17%",
		"3000sec", "2940sec", "btime 1795362333", "btime 1795362332", "2001:db8::8e11", "2001:db8::77").Replace(detailed)
	was, _ := parse([]byte(detailed))
	is, _ := parse([]byte(later))
	if diff := cmp.Diff(was.inside, is.inside); diff != "" {
		t.Error(diff)
	}
}

// A part that is not there costs that part only.
func TestInsideWithoutATool(t *testing.T) {
	for part, field := range map[string]string{"booted": "BootedAt", "links": "Links", "disks": "Disks", "mounts": "Mounts", "failed": "FailedUnits"} {
		told := divide(detailed)
		told[part] = ""
		want := detailedInside
		reflect.ValueOf(&want).Elem().FieldByName(field).SetZero()
		if diff := cmp.Diff(&want, parseInside(told)); diff != "" {
			t.Errorf("without %s: %s", part, diff)
		}
	}
	told := divide(detailed)
	told["failed"] = "nginx.service loaded failed failed A web server\n"
	if got := parseInside(told).FailedUnits; got != nil {
		t.Errorf("units of a list that has no end: %q", got)
	}
	told["failed"] = wire.AllUnits + "\n"
	if got := parseInside(told).FailedUnits; got == nil || len(got) > 0 {
		t.Errorf("units of a list that has none: %#v", got)
	}
	told["links"] = told["links"][:strings.Index(told["links"], "4: eno2")+40]
	if got := parseInside(told).Links; len(got) != 2 {
		t.Errorf("links of a list that was cut off: %+v", got)
	}
}

// A system may print as much as it likes: what is kept of it has its bounds.
func TestInsideIsBounded(t *testing.T) {
	told := divide(detailed)
	for part, l := range map[string]string{
		"links":     "1: WORD: mtu 1500 state UP link/ether 02:fc:00:00:00:01\n",
		"addresses": "1: eth0 inet NUMBER scope global\n",
		"disks":     `NAME="WORD" TYPE="disk" SIZE="512" MODEL="m" SERIAL="s"` + "\n",
		"mounts":    "/dev/WORD ext4 100 99 1 99% /WORD\n",
		"failed":    "WORD.service loaded failed failed x\n",
	} {
		var all strings.Builder
		for n := range 5000 {
			name := "eth" + strings.Repeat("0", n%300) + string(rune('a'+n%26)) + string(rune('a'+n/26%26))
			all.WriteString(strings.NewReplacer("WORD", name, "NUMBER", "10.0.0.1/8").Replace(l))
		}
		told[part] = all.String()
	}
	told["failed"] += wire.AllUnits + "\n"
	in := parseInside(told)
	if len(in.Links) != maxLinks || len(in.Disks) != maxDisks || len(in.Mounts) != maxMounts || len(in.FailedUnits) != maxUnits {
		t.Errorf("got %d links, %d disks, %d mounts, %d units", len(in.Links), len(in.Disks), len(in.Mounts), len(in.FailedUnits))
	}
	for _, l := range parseLinks(told["links"], parseAddresses(told["addresses"])) {
		if len(l.Addresses) > maxAddresses || len(l.Name) > 200 {
			t.Errorf("%s: %d addresses", l.Name, len(l.Addresses))
		}
	}
}

// The command is for every shell of POSIX, and tells what there is also where
// the tools are missing.
func TestCommandWithoutTools(t *testing.T) {
	missing := strings.NewReplacer("ip -o", "absent", "lsblk", "absent", "df -PkTl", "absent", "systemctl", "absent")
	for _, shell := range []string{"dash", "bash"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Fatal(err)
		}
		output, err := exec.Command(path, "-c", missing.Replace(inShell(reportScript))).Output()
		if err != nil {
			t.Fatal(err)
		}
		r, ok := parse(output)
		if !ok || r.inside == nil {
			t.Fatalf("%s: got %v, %+v of\n%s", shell, ok, r, output)
		}
		in := r.inside
		if in.BootedAt.IsZero() || in.MemoryBytes == 0 || in.Mounts != nil || in.FailedUnits != nil {
			t.Errorf("%s: got %+v", shell, in)
		}
		if links, _ := filepath.Glob("/sys/class/net/*"); len(in.Links) == 0 && len(links) > 1 {
			t.Errorf("%s: no links of %q in\n%s", shell, links, output)
		}
		if disks := sizedDisks(t); len(in.Disks) < len(disks) {
			t.Errorf("%s: got disks %+v of %q", shell, in.Disks, disks)
		}
	}
}

func sizedDisks(t *testing.T) []string {
	all, err := filepath.Glob("/sys/block/*/size")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(path string) bool {
		size, err := os.ReadFile(path)
		return err != nil || strings.TrimSpace(string(size)) == "0"
	})
}

// Whatever a system prints, what is kept of it is printable, bounded, and can be
// written.
func FuzzInside(f *testing.F) {
	f.Add([]byte(detailed))
	f.Add([]byte(strings.Replace(detailed, "--disks", "--disks\n--disks", 1)))
	f.Add([]byte(strings.NewReplacer("24684084", "-1", "1795362333", "99999999999999", "97%", "970%", "9000", "999999999999999999", "sda", `\x00\xff`).Replace(detailed)))
	f.Add([]byte(strings.Replace(detailed, "1795362333", "270000000000", 1))) // in the year 10525
	f.Fuzz(func(t *testing.T, output []byte) {
		r, _ := parse(output)
		if r.inside == nil {
			return
		}
		in := *r.inside
		shown := slices.Clone(in.FailedUnits)
		for _, l := range in.Links {
			shown = append(append(shown, l.Name, l.State, l.MAC), l.Addresses...)
			if l.MTU < 0 {
				t.Errorf("a link of %+v", l)
			}
		}
		for _, d := range in.Disks {
			shown = append(shown, d.Name, d.Kind, d.Model, d.Serial)
			if d.Bytes <= 0 {
				t.Errorf("a disk of %+v", d)
			}
		}
		for _, m := range in.Mounts {
			shown = append(shown, m.Path, m.Source, m.FileSystem)
			if m.Used < 0 || m.Used > 100 || m.Bytes < 0 {
				t.Errorf("a mount of %+v", m)
			}
		}
		for _, s := range shown {
			if s != line(s) {
				t.Errorf("%q is not fit to be shown", s)
			}
		}
		if in.MemoryBytes < 0 || in.SwapBytes < 0 || len(in.Links) > maxLinks || len(in.Disks) > maxDisks || len(in.Mounts) > maxMounts || len(in.FailedUnits) > maxUnits {
			t.Errorf("got %+v", in)
		}
		if _, err := json.Marshal(in); err != nil {
			t.Error(err)
		}
	})
}

// What the helper tells of a system by itself is what the programs of the shell's script tell.
func TestHelpersReportIsTheShells(t *testing.T) {
	var diff string
	for range 5 { // links and units come and go
		output, err := exec.Command("sh", "-c", inShell(reportScript)).Output()
		if err != nil {
			t.Fatal(err)
		}
		want, _ := parse(output)
		var b bytes.Buffer
		if err := reporting.Print(t.Context(), &b, inside.Real("/", true)); err != nil {
			t.Fatal(err)
		}
		got, ok := parse(b.Bytes())
		if !ok || got.inside == nil || len(got.inside.Disks) == 0 || len(got.inside.Mounts) == 0 {
			t.Fatalf("got %v, %+v of\n%s", ok, got.inside, b.String())
		}
		for i := range min(len(got.inside.Disks), len(want.inside.Disks)) { // lsblk knows less where udev does not run
			if g, w := &got.inside.Disks[i], want.inside.Disks[i]; w.Serial == "" && w.Model == "" {
				g.Serial, g.Model = "", ""
			}
		}
		if diff = cmp.Diff(want, got, cmp.AllowUnexported(want)); diff == "" {
			return
		}
	}
	t.Error(diff)
}
