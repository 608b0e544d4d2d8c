package blank

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestProveEncryptedMachine turns a blank machine into a server with encrypted disks: the root, and a volume group on an
// encrypted partition. Its TPM opens them at each start, without a person. With another TPM the disk stays shut.
func TestProveEncryptedMachine(t *testing.T) { installs(t, &world{t: t, encrypted: true}) }

// encryptedRecipe is the recipe with what opens disks in the initramfs. The modules of ciphers and of the TPM are added
// by the hooks of these packages.
const encryptedRecipe = `packages: ["cryptsetup-initramfs", "clevis-initramfs", "clevis-systemd", "clevis-tpm2"]
` + recipe

// encryptedDisk is what the design has in addition.
const encryptedDisk = `profiles: web: storage: disks: system: partitions: {
	boot: {number: 4, size: "1GiB", filesystem: mount: "/boot"}
	root: encrypt: "tpm"
	rest: encrypt: "tpm"
}
`

// rootAs is the form of what findmnt(8) prints of the root.
func (w *world) rootAs() string {
	if w.encrypted {
		return `^/dev/mapper/luks-[0-9a-f-]{36} +ext4$`
	}
	return `^/dev/nvme0n1p2 +ext4$`
}

// opensAlone looks at the encrypted disks from inside, opens them by the derived passphrase too, and restarts the
// machine, which comes back without a person.
func (w *world) opensAlone() {
	t := w.t
	t.Helper()
	for words, want := range map[string]string{
		"lsblk -rno NAME,TYPE,MOUNTPOINT /dev/nvme0n1": `(?s)luks-\S+ crypt /\n.*luks-\S+ crypt \n.*local-srv lvm /srv`,
		"sudo -n cryptsetup luksDump /dev/nvme0n1p3":   `(?s)Version:\s+2\n.*0: luks2.*1: luks2.*0: clevis`,
		"sudo -n clevis luks list -d /dev/nvme0n1p2":   `^1: tpm2 `,
		"findmnt -no FSTYPE /boot":                     `^ext4$`,
	} {
		if got, err := w.inside(words); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("%s prints %q (%v), want %s", words, got, err, want)
		}
	}
	derived := w.slipway("secret", "derive", "web-1", "disk encryption", w.at("work"), "--site-key", w.at("site.key"), "--output", "json")
	token, err := w.inside("sudo -n cryptsetup token export --token-id 31 /dev/nvme0n1p3")
	check(t, err)
	w.write("token.json", token)
	by := w.slipway("secret", "derive", "web-1", "disk encryption", w.at("work"), "--token", w.at("token.json"), "--site-key", w.at("site.key"), "--output", "json")
	find := regexp.MustCompile(`"password": *"([a-z]{32})"`)
	passphrase, ofToken := find.FindStringSubmatch(derived), find.FindStringSubmatch(by)
	if passphrase == nil || ofToken == nil || ofToken[1] != passphrase[1] {
		t.Fatalf("by the design %s, by the token of the disk %s", derived, by)
	}
	for _, part := range []string{"2", "3"} {
		test := "printf %s " + passphrase[1] + " | sudo -n cryptsetup open --test-passphrase --key-file - /dev/nvme0n1p" + part
		if got, err := w.inside(test); err != nil {
			t.Errorf("the derived passphrase does not open the partition %s: %v, %s", part, err, got)
		}
		if _, err := w.inside(strings.Replace(test, passphrase[1], "x"+passphrase[1][1:], 1)); err == nil {
			t.Errorf("another passphrase opens the partition %s", part)
		}
	}
	before, err := w.inside("cat /proc/sys/kernel/random/boot_id")
	check(t, err)
	_, _ = w.inside("sudo -n systemctl reboot") // the connection is cut
	for began := time.Now(); ; <-time.After(5 * time.Second) {
		if now, err := w.inside("cat /proc/sys/kernel/random/boot_id"); err == nil && now != before {
			t.Logf("restarted and opened without a person after %.0f s", time.Since(began).Seconds())
			break
		}
		if time.Since(began) > 15*time.Minute {
			t.Fatalf("the machine does not come back by itself; the console:\n%s", w.console())
		}
	}
	if got, err := w.inside("findmnt -no FSTYPE /srv"); got != "xfs" {
		t.Errorf("after the restart /srv is %q (%v)", got, err)
	}
}

// staysShut starts the machine with its disk and another TPM: it asks for the passphrase, and for nothing else.
func (w *world) staysShut() {
	t := w.t
	t.Helper()
	lab := func(args ...string) string {
		return w.does(w.at("bin/slipway-lab"), append(args, "--control", w.at("lab.sock"))...)
	}
	lab("machine", "web-1", "--power", "off")
	tpm := filepath.Join(w.at("drives"), "web-1", "tpm")
	if all, err := os.ReadDir(tpm); err != nil || len(all) == 0 {
		t.Fatalf("the machine has no TPM in %s: %v", tpm, err)
	}
	check(t, os.RemoveAll(tpm))
	whole := func() string { return lab("console", "web-1") }
	before := len(whole())
	lab("machine", "web-1", "--power", "on")
	tail := func() string { all := whole(); return all[min(before, len(all)):] }
	for began := time.Now(); !strings.Contains(tail(), "Please unlock disk luks-"); <-time.After(5 * time.Second) {
		if time.Since(began) > 15*time.Minute {
			t.Fatalf("with another TPM the machine does not ask for the passphrase; the console:\n%s", tail())
		}
	}
	<-time.After(2 * time.Minute) // clevis tries every few seconds
	if _, err := w.inside("true"); err == nil || strings.Contains(tail(), "login:") || strings.Contains(tail(), "Unlocked") {
		t.Errorf("with another TPM the disk was opened; the console:\n%s", tail())
	}
}
