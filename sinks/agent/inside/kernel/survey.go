package kernel

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/tree"
)

// machineOwn are parameters that name disks and files of one installation, or that every installation has.
var machineOwn = []string{"BOOT_IMAGE", "root", "rootflags", "rootfstype", "ro", "rw", "quiet", "splash", "rhgb", "initrd", "resume", "resume_offset", "cryptdevice", "crashkernel"}

// assigned is a line that sets the parameters in grub's settings.
var assigned = inside.Pattern(`^(GRUB_CMDLINE_LINUX|GRUB_CMDLINE_LINUX_DEFAULT)(\+?)=(.*)$`)

// Survey lists the command line parameters that a person has added: those in the boot loader's settings that apply
// now and at the next boot.
func (f facet) Survey(ctx context.Context, h *inside.Host) (found item.Found, err error) {
	w, err := f.begin(ctx, h)
	if err != nil {
		return found, err
	}
	defer w.tree.Close()
	if w.wrong(w.loader()) != "" {
		return found, nil // no command line of its own
	}
	added, err := w.addedByHand()
	if err != nil {
		return found, err
	}
	byKey := map[string]parameter{}
	var keys []string
	for _, p := range added {
		key := item.KindParameters + "." + p.name
		if slices.Contains(machineOwn, p.name) || strings.HasPrefix(p.name, "rd.") {
			continue
		}
		if _, twice := byKey[key]; twice {
			if slices.Contains(keys, key) {
				found.Leave(key, "it is given several times, and a design gives it once")
				keys = slices.DeleteFunc(keys, func(k string) bool { return k == key })
			}
			continue
		}
		byKey[key] = p
		if why := bad(p.name, p.value); why != "" {
			found.Leave(key, "%s", why)
			continue
		}
		keys = append(keys, key)
	}
	w.observeParameters(keys)
	for _, key := range keys {
		text, _ := find([]parameter{byKey[key]}, item.ID(key))
		_, leaves := w.seen.Pending[key]
		switch {
		case w.seen.Unread[key] != "":
			found.Leave(key, "it could not be read: %s", w.seen.Unread[key])
		case w.seen.Have[key] != text || leaves:
			found.Leave(key, "the boot loader's settings give it %q, which is not what the kernel runs with or will run with at the next boot", text)
		default:
			found.Items = append(found.Items, item.New(key, map[string]string{"": text}, nil))
		}
	}
	return found, nil
}

// addedByHand are the parameters in the boot loader's settings.
func (w *work) addedByHand() (all []parameter, err error) {
	files := []string{"/etc/default/grub"}
	names, err := w.tree.Names("/etc/default/grub.d")
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		if file := "/etc/default/grub.d/" + n; strings.HasSuffix(n, ".cfg") && file != grubFile {
			files = append(files, file)
		}
	}
	if w.loader() == stub {
		files = []string{cmdlineFile}
	}
	last := map[string][]parameter{} // by variable: a later line replaces earlier ones
	for _, file := range files {
		if e, err := w.tree.Look(file); err != nil || e.Kind != tree.File {
			continue
		}
		text, err := w.tree.Read(file, maxConfig)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if file == cmdlineFile {
			return parse(string(text)), nil
		}
		for line := range strings.Lines(string(text)) {
			if m := assigned().FindStringSubmatch(strings.TrimSpace(line)); m != nil {
				value := shellValue(m[3])
				earlier, appends := "$"+m[1], false
				if rest, ok := strings.CutPrefix(value, earlier); ok {
					value, appends = rest, true
				} else if rest, ok := strings.CutPrefix(value, "${"+m[1]+"}"); ok {
					value, appends = rest, true
				}
				if !appends && m[2] == "" {
					last[m[1]] = nil
				}
				last[m[1]] = append(last[m[1]], parse(value)...)
			}
		}
	}
	return append(last["GRUB_CMDLINE_LINUX"], last["GRUB_CMDLINE_LINUX_DEFAULT"]...), nil
}

// shellValue is the value of a shell assignment without its quotes.
func shellValue(text string) string {
	if len(text) > 1 && (text[0] == '"' || text[0] == '\'') {
		if end := strings.LastIndexByte(text, text[0]); end > 0 {
			return text[1:end]
		}
	}
	word, _, _ := strings.Cut(text, " ")
	return word
}
