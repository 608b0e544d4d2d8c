package config

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/systemd"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/tree"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// A certificate has a folder for each key, ".NAME-DIGEST", and a link NAME to the present one. So the key, the
// certificate and the authorities change from one to the next in one rename, and nobody reads a key beside the
// certificate of another one.
const (
	tlsFolder = "/etc/slipway-tls"
	keyFile   = "key.pem"
	certFile  = "cert.pem"
	trustFile = "ca.pem"
	listFile  = "crl.pem" // of revoked certificates, if the design asks for it
)

const (
	keyMode    = 0o600
	publicMode = 0o644
)

// maxPEM bounds a file of certificates, in bytes.
const maxPEM = 64 << 10

// maxReload is how long a unit may take to read its files again.
const maxReload = time.Minute

// madeCertificate is what is kept of a certificate that Slipway put here.
type madeCertificate struct {
	// Folder is where the link points. Key is the item.Digest of the private key.
	Folder string `json:"folder"`
	Key    string `json:"key"`
	// Former is where the link points until it is changed, FormerKey the digest of the key there: a run may be cut off
	// between the two.
	Former    string `json:"former,omitempty"`
	FormerKey string `json:"formerKey,omitempty"`
	// Reload lists the units that have not read it since the boot Boot. At the next boot they start with it.
	Reload []string `json:"reload,omitempty"`
	Boot   string   `json:"boot,omitempty"`
	// List is the item.Digest of the lists of revoked certificates that Slipway put here, FormerList that of those
	// before; empty without any.
	List       string `json:"list,omitempty"`
	FormerList string `json:"formerList,omitempty"`
	// ListUntil is when the first of the lists is over, as the daemon said.
	ListUntil string `json:"listUntil,omitempty"`
}

func linkOf(key string) string { return tlsFolder + "/" + item.ID(key) }

// unheardCertificate is the text for a certificate that its reader does not use yet.
func unheardCertificate(unit string) string { return " (" + unit + " has not read it)" }

func (w *work) observeCertificate(key string) {
	names := item.Name(key, "names")
	e, err := w.tree.Look(linkOf(key))
	if err != nil {
		w.seen.Unread[key] = err.Error()
		return
	}
	if e.Kind == tree.Nothing {
		return
	}
	var made madeCertificate
	ours := w.items.Load(key, nil, &made)
	if made.Former != "" && e.Target == made.Former {
		made.Folder, made.Key = made.Former, made.FormerKey
	}
	if !ours || e.Kind != tree.Link || made.Folder == "" || e.Target != made.Folder {
		w.seen.Have[names] = "changed by hand: " + linkOf(key) + " is " + kindText(e)
		return
	}
	if err := w.seeCertificate(key, made); err != nil {
		delete(w.seen.Have, names)
		w.seen.Unread[key] = err.Error()
	}
}

// seeCertificate tells of the files of a certificate that Slipway put here.
func (w *work) seeCertificate(key string, made madeCertificate) error {
	a, err := w.names()
	if err != nil {
		return err
	}
	have := func(field, value string) { w.seen.Have[item.Name(key, field)] = value }
	for file, mode := range map[string]uint32{keyFile: keyMode, certFile: publicMode, trustFile: publicMode} {
		at := path.Join(tlsFolder, made.Folder, file)
		e, err := w.tree.Look(at)
		switch {
		case err != nil:
			return err
		case e.Kind != tree.File:
			have("names", fmt.Sprintf("changed by hand: no file is at %s", at))
			return nil
		case e.Mode != mode || file != keyFile && e.UID != 0:
			have("names", fmt.Sprintf("changed by hand: %s is of %s with mode %s", at, a.users.text(e.UID), tree.ModeText(e.Mode)))
			return nil
		}
		if file == keyFile {
			have("owner", a.users.text(e.UID)+":"+a.groups.text(e.GID))
		}
	}
	digest, err := w.tree.Digest(w.ctx, path.Join(tlsFolder, made.Folder, keyFile), maxPEM)
	if err != nil {
		return err
	}
	if digest != made.Key {
		have("names", "changed by hand: "+path.Join(linkOf(key), keyFile)+" is another key")
		return nil
	}
	trust, err := w.tree.Read(path.Join(tlsFolder, made.Folder, trustFile), maxPEM)
	if err != nil {
		return err
	}
	have("authorities", item.Authorities(string(trust)))
	if digest, err = w.tree.Digest(w.ctx, path.Join(tlsFolder, made.Folder, certFile), maxPEM); err != nil {
		return err
	}
	if err := w.seeList(key, made); err != nil {
		return err
	}
	unit, err := w.unheardBy(made)
	if err != nil {
		return err
	}
	if unit != "" {
		digest += unheardCertificate(unit)
	}
	have("names", digest)
	return nil
}

// unheardBy is a running unit that has not read a certificate; empty for none.
func (w *work) unheardBy(made madeCertificate) (string, error) {
	if !w.h.Live || len(made.Reload) == 0 || made.Boot != w.bootID() {
		return "", nil
	}
	states, err := w.showUnits(made.Reload)
	if err != nil {
		return "", err
	}
	for _, unit := range made.Reload {
		if states[unit].active == "running" {
			return unit, nil
		}
	}
	return "", nil
}

// applyCertificates makes certificates. The units that read them are reloaded at the end of the call.
func (w *work) applyCertificates(items []item.Item) {
	for _, i := range items {
		if err := w.applyCertificate(i); err != nil {
			w.fail(i.Key, err)
		}
	}
}

func (w *work) applyCertificate(i item.Item) error {
	var body item.Certificate
	if err := json.Unmarshal(i.Body, &body); err != nil {
		return fmt.Errorf("the body of the item: %w", err)
	}
	name := item.ID(i.Key)
	if name == "" || strings.HasPrefix(name, ".") || strings.ContainsAny(name, "/\x00") {
		return refusal("%q is not a name of a certificate", name)
	}
	_, uid, gid, err := w.attributes(item.File{Owner: body.Owner, Group: body.Group})
	if err != nil {
		return err
	}
	if err := w.canReload(body.Reload); err != nil {
		return err
	}
	e, err := w.tree.Look(linkOf(i.Key))
	if err != nil {
		return err
	}
	var made madeCertificate
	ours := w.items.Load(i.Key, nil, &made)
	if !ours && e.Kind != tree.Nothing || ours && e.Kind != tree.Nothing && e.Kind != tree.Link {
		return refusal("%s is %s, which Slipway did not make. Move it away", linkOf(i.Key), kindText(e))
	}
	if body.Sign {
		if made, err = w.signed(i.Key, body, uid, gid); err != nil {
			return err
		}
	}
	if made.Folder == "" {
		return nil // nothing was signed yet, and this step does not ask for it
	}
	return w.useCertificate(i.Key, made, body)
}

func refusal(format string, args ...any) error {
	return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf(format, args...)}
}

// canReload refuses units that could not read the certificate again, before a key is made. A unit whose file this
// call brings is not known to systemd yet.
func (w *work) canReload(units []string) error {
	if !w.h.Live || len(units) == 0 {
		return nil
	}
	for _, unit := range units {
		if badUnit(unit) || isTemplate(unit) {
			return refusal("%q is not a unit to reload", unit)
		}
	}
	units = slices.DeleteFunc(slices.Clone(units), func(unit string) bool { return w.bringing[unit] })
	told, err := systemd.Show(w.ctx, w.h, units, "LoadState", "CanReload")
	if err != nil {
		return err
	}
	for i, p := range told {
		switch {
		case p["LoadState"] == "not-found" || p["LoadState"] == "masked":
			return refusal("the unit %s that is to be reloaded is %s on this system. Add the package that brings it, or take it out of `reload`", units[i], p["LoadState"])
		case p["CanReload"] == "no":
			return refusal("the unit %s cannot be reloaded, since it has no ExecReload=. Take it out of `reload`, and have its program read the certificate again by itself", units[i])
		}
	}
	return nil
}

// signed makes a new key, asks for its certificate, and puts both into a folder of their own. Nothing is on the disk
// before the certificate is there.
func (w *work) signed(key string, body item.Certificate, uid, gid int) (made madeCertificate, err error) {
	if w.h.Sign == nil {
		return made, refusal("nobody signs certificates here")
	}
	private, request, point, err := newKey()
	if err != nil {
		return made, err
	}
	defer clear(private)
	chain, err := w.h.Sign(key, request)
	if err != nil {
		return made, err
	}
	if block, _ := pem.Decode(chain); block == nil || block.Type != "CERTIFICATE" || !bytes.Contains(block.Bytes, point) || len(chain) > maxPEM {
		return made, fmt.Errorf("what came is not a certificate of the new key")
	}
	digest := item.Digest(chain)
	w.items.Load(key, nil, &made)
	folder := "." + item.ID(key) + "-" + strings.TrimPrefix(digest, "sha256:")[:12]
	if _, ours := w.h.Owned.Entry(name, key); !ours {
		folders, err := w.foldersOf(linkOf(key))
		if err != nil {
			return made, err
		}
		if err := w.items.Take(key, fileBefore{Folders: folders}); err != nil {
			return made, err
		}
	}
	at := path.Join(tlsFolder, folder)
	if err := w.tree.Put(path.Join(at, keyFile), private, keyMode, uid, gid); err != nil {
		return made, err
	}
	if err := w.tree.Put(path.Join(at, certFile), chain, publicMode, 0, 0); err != nil {
		return made, err
	}
	return madeCertificate{Folder: folder, Key: item.Digest(private), Reload: made.Reload, Boot: made.Boot, List: made.List, ListUntil: made.ListUntil}, nil
}

// useCertificate completes the folder of a certificate and has the link point to it. Then no other folder stays. The
// key in it is never given to another account: who had it may know it, so the next look asks for a new one.
func (w *work) useCertificate(key string, made madeCertificate, body item.Certificate) error {
	at := path.Join(tlsFolder, made.Folder)
	trust, err := w.tree.Look(path.Join(at, trustFile))
	if err != nil {
		return err
	}
	so, err := w.isFile(path.Join(at, trustFile), trust, []byte(body.Trust), publicMode, 0, 0)
	if err != nil {
		return err
	}
	e, err := w.tree.Look(linkOf(key))
	if err != nil {
		return err
	}
	list, isListed, err := w.listToPut(made, e.Target, body)
	if err != nil {
		return err
	}
	so = so && isListed
	if !so || e.Target != made.Folder {
		var noted madeCertificate
		w.items.Load(key, nil, &noted)
		switch e.Target {
		case noted.Folder:
			made.Former, made.FormerKey = noted.Folder, noted.Key
		case noted.Former:
			made.Former, made.FormerKey = noted.Former, noted.FormerKey
		}
		w.mustHear(&made, body.Reload)
		made.List, made.FormerList = digestOf(list), noted.List
		if body.List != "" {
			made.ListUntil = body.ListUntil
		}
		if err := w.items.Note(key, made); err != nil {
			return err
		}
	}
	if !so {
		if err := w.tree.Put(path.Join(at, trustFile), []byte(body.Trust), publicMode, 0, 0); err != nil {
			return err
		}
		if err := w.putList(path.Join(at, listFile), list); err != nil {
			return err
		}
	}
	if e.Target != made.Folder {
		if err := w.tree.PutLink(linkOf(key), made.Folder, 0, 0); err != nil {
			return err
		}
	}
	w.renewed = append(w.renewed, key)
	digest, err := w.tree.Digest(w.ctx, path.Join(at, certFile), maxPEM)
	if err != nil {
		return err
	}
	if w.h.Certified == nil {
		w.h.Certified = map[string]string{}
	}
	w.h.Certified[key] = digest
	return w.clearCertificates(item.ID(key), made.Folder)
}

// mustHear notes the units that read a certificate again.
func (w *work) mustHear(made *madeCertificate, units []string) {
	if !w.h.Live || len(units) == 0 {
		return
	}
	if made.Boot != w.bootID() {
		made.Reload = nil
	}
	made.Reload = slices.Compact(slices.Sorted(slices.Values(slices.Concat(made.Reload, units))))
	made.Boot = w.bootID()
}

// clearCertificates removes the folders of earlier keys of a certificate, and of keys that were cut off.
func (w *work) clearCertificates(name, keep string) error {
	all, err := w.tree.Names(tlsFolder)
	if err != nil {
		return err
	}
	for _, folder := range all {
		digest, is := strings.CutPrefix(folder, "."+name+"-")
		if !is || len(digest) != 12 || folder == keep {
			continue
		}
		for _, file := range []string{keyFile, certFile, trustFile, listFile} {
			if err := w.tree.Remove(path.Join(tlsFolder, folder, file)); err != nil {
				return err
			}
		}
		if err := w.tree.RemoveFolders([]string{path.Join(tlsFolder, folder)}); err != nil {
			return err
		}
	}
	return nil
}

// reloadReaders reloads the units that have not read a new certificate, each once. One that fails keeps none of the
// others from reading it.
func (w *work) reloadReaders() {
	done := map[string]error{}
	for _, key := range w.renewed {
		var made madeCertificate
		if w.items.Load(key, nil, &made); len(made.Reload) == 0 || made.Boot != w.bootID() {
			continue
		}
		states, err := w.showUnits(made.Reload)
		if err != nil {
			w.fail(key, err)
			continue
		}
		var unheard []string
		var failures []error
		for _, unit := range made.Reload {
			if states[unit].active != "running" || slices.Contains(w.started, unit) {
				continue
			}
			failed, tried := done[unit]
			if !tried {
				failed = w.do(fmt.Sprintf("reload %s, since its certificate %s is new", unit, item.ID(key)), maxReload, "reload", "--", unit)
				done[unit] = failed
			}
			if failed != nil {
				unheard, failures = append(unheard, unit), append(failures, failed)
			}
		}
		if made.Reload = unheard; len(unheard) == 0 {
			made.Boot = ""
		}
		if err := errors.Join(append(failures, w.items.Note(key, made))...); err != nil {
			w.fail(key, err)
		}
	}
	w.renewed = nil
}

// removeCertificates removes certificates that left the design, with their keys.
func (w *work) removeCertificates(keys []string) {
	for _, key := range keys {
		if err := w.removeCertificate(key); err != nil {
			w.fail(key, err)
		}
	}
}

func (w *work) removeCertificate(key string) error {
	var before fileBefore
	var made madeCertificate
	if !w.items.Load(key, &before, &made) {
		return nil
	}
	e, err := w.tree.Look(linkOf(key))
	if err != nil {
		return err
	}
	if e.Kind != tree.Nothing && e.Kind != tree.Link {
		return refusal("%s is %s now, which Slipway did not make. Move it away", linkOf(key), kindText(e))
	}
	if err := w.tree.Remove(linkOf(key)); err != nil {
		return err
	}
	if err := w.clearCertificates(item.ID(key), ""); err != nil {
		return err
	}
	if err := w.tree.RemoveFolders(before.Folders); err != nil {
		return err
	}
	return w.items.Drop(key)
}
