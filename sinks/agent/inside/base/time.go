package base

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

const (
	localtime    = "/etc/localtime"
	timezoneFile = "/etc/timezone" // Debian's, before 13
	zoneinfo     = "/usr/share/zoneinfo"
)

// wasTime is what was there of the time zone.
type wasTime struct {
	Link     string  `json:"link,omitempty"` // where localtime led to
	Content  []byte  `json:"content"`        // of localtime, where it is a file
	Timezone *string `json:"timezone,omitempty"`
}

// madeTime is what we made of the clock.
type madeTime struct {
	Zone    bool `json:"zone,omitempty"` // the zone is ours
	Servers bool `json:"servers,omitempty"`
	Folder  bool `json:"folder,omitempty"` // we made that of timesyncd's settings
	// Restart is a unit that must be restarted before all has its effect.
	Restart string `json:"restart,omitempty"`
}

func (j *job) seeTime(seen *inside.Seen) {
	const zone, servers = item.KindTime + ".zone", item.KindTime + ".servers"
	if have, err := j.zone(); err != nil {
		seen.Unread[zone] = err.Error()
	} else {
		seen.Have[zone] = have
	}
	if want := j.h.Wants[zone]; !j.exists(zoneinfo) {
		seen.Cannot[zone] = noZones
	} else if err := j.checkZone(want); want != "" && err != nil && isLacking(err) {
		seen.Cannot[item.Valued(zone, want)] = err.Error()
	}
	s := j.clock()
	if s == nil {
		seen.Cannot[servers] = noClock
		return
	}
	have, err := s.servers(j)
	var made madeTime
	ours := j.entry(item.KindTime, nil, &made)
	switch {
	case err != nil:
		seen.Unread[servers] = err.Error()
	case ours && made.Restart != "" && j.h.Live:
		seen.Have[servers] = item.List(have) + " (" + made.Restart + " must be restarted)"
	case len(have) > 0:
		seen.Have[servers] = item.List(have)
	}
}

const (
	noZones = "there are no time zones in " + zoneinfo + ": add the package tzdata"
	noClock = "there is no time service: add the package chrony"
)

// zone is the name of the present time zone. Without a localtime it is UTC.
func (j *job) zone() (string, error) {
	at, err := j.place(localtime)
	if err != nil {
		return "", err
	}
	target, err := os.Readlink(at)
	if err == nil {
		if _, zone, ok := strings.Cut(target, "zoneinfo/"); ok {
			return printable(zone), nil
		}
		return "what " + printable(target) + " says", nil
	}
	switch _, err := os.Lstat(at); {
	case errors.Is(err, fs.ErrNotExist):
		return "UTC", nil
	case err != nil:
		return "", err
	}
	return "what the file " + localtime + " says", nil
}

func (j *job) setTime(want item.Time) error {
	var noZone, noServers error
	if want.Zone != "" {
		if noZone = j.checkZone(want.Zone); noZone != nil && !isLacking(noZone) {
			return noZone
		}
	}
	for _, s := range want.Servers {
		if !validServer(s) {
			return refused("%.100q is not the name or the address of a time server", s)
		}
	}
	s := j.clock()
	if s == nil && len(want.Servers) > 0 {
		noServers = lacking(noClock)
	}
	var before wasTime
	var made madeTime
	ours := j.entry(item.KindTime, &before, &made)
	if noZone == nil {
		if err := j.makeZone(want.Zone, ours, &before, &made); err != nil {
			return err
		}
	}
	if noServers == nil {
		if err := j.makeServers(s, want.Servers, &made); err != nil {
			return err
		}
	}
	return worst(noZone, noServers)
}

// makeZone sets the zone, or sets it back where the design no longer has one.
func (j *job) makeZone(want string, ours bool, before *wasTime, made *madeTime) error {
	if want == "" {
		if !made.Zone {
			return nil
		}
		if err := j.restoreZone(*before); err != nil {
			return err
		}
		made.Zone = false
		return j.note(item.KindTime, *made)
	}
	timezone, there, err := j.read(timezoneFile)
	if err != nil {
		return failed("%v", err)
	}
	same := !there || strings.TrimSpace(string(timezone)) == want
	if present, err := j.zone(); err == nil && present == want && same && j.exists(localtime) {
		return nil
	}
	if !made.Zone {
		if err := j.takeTime(ours, before); err != nil {
			return err
		}
		made.Zone = true
		if err := j.note(item.KindTime, *made); err != nil {
			return err
		}
	}
	if err := j.link(".."+zoneinfo+"/"+want, localtime); err != nil {
		return err
	}
	if !there {
		return nil
	}
	return j.write(timezoneFile, []byte(want+"\n"))
}

// takeTime owns the clock, with the zone as it is.
func (j *job) takeTime(ours bool, before *wasTime) error {
	if ours {
		return nil
	}
	was, err := j.zoneBefore()
	if err != nil {
		return failed("%v", err)
	}
	*before = was
	return j.take(item.KindTime, was)
}

func (j *job) zoneBefore() (was wasTime, err error) {
	at, err := j.place(localtime)
	if err != nil {
		return was, err
	}
	if was.Link, err = os.Readlink(at); err != nil {
		if was.Content, _, err = j.read(localtime); err != nil {
			return was, err
		}
	}
	text, there, err := j.read(timezoneFile)
	if there {
		content := string(text)
		was.Timezone = &content
	}
	return was, err
}

func (j *job) restoreZone(was wasTime) (err error) {
	switch {
	case was.Link != "":
		err = j.link(was.Link, localtime)
	default:
		// A link is no regular file, which is all that a write replaces.
		if at, _ := j.place(localtime); isLink(at) || was.Content == nil {
			err = j.delete(localtime)
		}
		if err == nil && was.Content != nil {
			err = j.write(localtime, was.Content)
		}
	}
	if err != nil || was.Timezone == nil {
		return err
	}
	return j.write(timezoneFile, []byte(*was.Timezone))
}

func isLink(at string) bool {
	_, err := os.Readlink(at)
	return err == nil
}

// checkZone says whether a zone can be had.
func (j *job) checkZone(zone string) error {
	if clean := filepath.Clean(zone); clean != zone || filepath.IsAbs(zone) || strings.HasPrefix(zone, "..") || printable(zone) != zone {
		return refused("%.100q is not the name of a time zone", zone)
	}
	if !j.exists(zoneinfo) {
		return lacking(noZones)
	}
	at, err := j.follow(zoneinfo + "/" + zone)
	if err != nil {
		return refused("%v", err)
	}
	if info, err := os.Stat(at); err != nil || !info.Mode().IsRegular() {
		return lacking(fmt.Sprintf("there is no time zone %q in %s: correct its name, or add the package tzdata (tzdata-legacy has old names)", zone, zoneinfo))
	}
	return nil
}

// makeServers sets the time servers, or gives the system its own back where the
// design has none.
func (j *job) makeServers(s clock, want []string, made *madeTime) error {
	if !made.Servers && (len(want) == 0 || uses(j, s, want)) {
		return nil
	}
	// Another time service may have taken the place of the one that was set before.
	for _, other := range clocks {
		if made.Servers && (s == nil || other.name() != s.name()) {
			if _, err := other.apply(j, nil, made, func() error { return nil }); err != nil {
				return err
			}
		}
	}
	if s != nil {
		begin := func() error {
			if err := j.takeTime(j.entry(item.KindTime, nil, nil), &wasTime{}); err != nil {
				return err
			}
			made.Servers, made.Restart = true, s.unit(j)
			return j.note(item.KindTime, *made)
		}
		if _, err := s.apply(j, want, made, begin); err != nil {
			return err
		}
	}
	if s != nil && made.Restart != "" {
		if err := j.service(s.unit(j)); err != nil {
			return err
		}
	}
	if !j.entry(item.KindTime, nil, nil) {
		return nil
	}
	made.Restart = ""
	made.Servers = len(want) > 0
	made.Folder = made.Folder && made.Servers
	return j.note(item.KindTime, *made)
}

// uses says whether a time service uses these servers already, by its own settings.
func uses(j *job, s clock, want []string) bool {
	if s == nil {
		return false
	}
	have, err := s.servers(j)
	return err == nil && item.List(have) == item.List(want)
}

func (j *job) removeTime() error {
	var before wasTime
	var made madeTime
	if !j.entry(item.KindTime, &before, &made) {
		return nil
	}
	if err := j.makeZone("", true, &before, &made); err != nil {
		return err
	}
	if err := j.makeServers(j.clock(), nil, &made); err != nil {
		return err
	}
	return j.drop(item.KindTime)
}

// validServer says whether a text is a host name or an address, and nothing that
// a settings file would read as more.
func validServer(text string) bool { return validHost(strings.ReplaceAll(text, ":", "")) }
