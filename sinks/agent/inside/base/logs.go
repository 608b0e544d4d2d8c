package base

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

const (
	rsyslogFile = "/etc/rsyslog.d/60-slipway.conf"
	rsyslogUnit = "rsyslog.service"
	noRsyslog   = "there is no rsyslog to forward messages with: add the package rsyslog"
)

// madeLogs is what we made of the forwarding.
type madeLogs struct {
	Restart bool        `json:"restart,omitempty"` // rsyslog has not read what we wrote
	Upload  *madeUpload `json:"upload,omitempty"`  // nil where the journal's own program is not ours
}

// receiver is where messages go to.
type receiver struct {
	url, protocol, host string
	port                int
}

var defaultPorts = map[string]int{"udp": 514, "tcp": 514, "tls": 6514, "http": 19532, "https": 19532}

// parseReceiver reads a URL such as "tls://logs.example.org:6514".
func parseReceiver(url string) (r receiver, err error) {
	wrong := fmt.Errorf("%.100q is not a receiver such as tls://logs.example.org:6514", url)
	var rest string
	var ok bool
	if r.protocol, rest, ok = strings.Cut(url, "://"); !ok || defaultPorts[r.protocol] == 0 {
		return r, wrong
	}
	r.url, r.port = url, defaultPorts[r.protocol]
	rest = strings.TrimSuffix(rest, "/")
	port := ""
	switch {
	case strings.HasPrefix(rest, "["): // an IPv6 address
		var after string
		if r.host, after, ok = strings.Cut(rest[1:], "]"); !ok || after != "" && after[0] != ':' {
			return r, wrong
		}
		port = strings.TrimPrefix(after, ":")
		if !validServer(r.host) || !strings.Contains(r.host, ":") {
			return r, wrong
		}
	default:
		r.host, port, _ = strings.Cut(rest, ":")
		if !validHost(r.host) {
			return r, wrong
		}
	}
	if port != "" {
		if r.port, err = strconv.Atoi(port); err != nil || r.port < 1 || r.port > 65535 {
			return r, wrong
		}
	}
	return r, nil
}

// address is the host with the port, as a URL has it. The helper has no package net.
func (r receiver) address() string {
	host := r.host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(r.port)
}

// secure is what rsyslog needs to speak TLS: the driver, and the file of the
// authorities that are trusted.
type secure struct{ driver, authorities string }

// tls looks for what TLS needs; the sentence says what is missing.
func (j *job) tls() (s secure, missing string) {
	for _, d := range []string{"ossl", "gtls"} {
		if s.driver == "" && j.module("lmnsd_"+d+".so") {
			s.driver = d
		}
	}
	if s.driver == "" {
		return s, "rsyslog cannot speak TLS: add the package rsyslog-openssl or rsyslog-gnutls"
	}
	s.authorities = j.first("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
	if s.authorities == "" {
		return s, "there are no authorities to verify a TLS receiver by: add the package ca-certificates"
	}
	return s, ""
}

// module says whether rsyslog has a module. Debian has its modules in a folder for
// the architecture.
func (j *job) module(file string) bool {
	folders := []string{"/usr/lib64/rsyslog", "/usr/lib/rsyslog"}
	for _, arch := range []string{"x86_64", "aarch64"} {
		folders = append(folders, "/usr/lib/"+arch+"-linux-gnu/rsyslog")
	}
	for _, folder := range folders {
		if j.exists(folder + "/" + file) {
			return true
		}
	}
	return false
}

const receiverMark = "# receiver "

// rsyslogText is the settings file for some receivers. Each has a queue of its
// own, so that one that does not answer holds up neither the system's own log nor
// the other receivers: the queue goes to the disk, and drops what is over its
// bound.
func rsyslogText(all []receiver, s secure) string {
	var text strings.Builder
	text.WriteString("# Slipway's, from the design.\n")
	for i, r := range all {
		fmt.Fprintf(&text, "%s%s\naction(type=\"omfwd\" target=\"%s\" port=\"%d\"", receiverMark, r.url, r.host, r.port)
		if r.protocol == "udp" {
			text.WriteString(" protocol=\"udp\"")
		} else {
			text.WriteString(" protocol=\"tcp\" tcp_framing=\"octet-counted\"")
		}
		if r.protocol == "tls" {
			fmt.Fprintf(&text, "\n  streamDriver=\"%s\" streamDriverMode=\"1\" streamDriverAuthMode=\"x509/name\" streamDriverPermittedPeers=\"%s\" "+
				"streamDriver.CAFile=\"%s\"", s.driver, r.host, s.authorities)
		}
		fmt.Fprintf(&text, "\n  action.resumeRetryCount=\"-1\" action.resumeInterval=\"10\" queue.type=\"LinkedList\" queue.size=\"10000\" "+
			"queue.filename=\"slipway-%d\" queue.maxDiskSpace=\"256m\" queue.saveOnShutdown=\"on\" queue.timeoutEnqueue=\"0\")\n", i+1)
	}
	return text.String()
}

// forwardOf are the receivers that a file of ours names, if it is as we write it.
func forwardOf(text string) (urls []string, whole bool) {
	var all []receiver
	var s secure
	for line := range strings.Lines(text) {
		if url, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), receiverMark); ok {
			r, err := parseReceiver(url)
			if err != nil {
				return nil, false
			}
			all, urls = append(all, r), append(urls, url)
		}
		s.driver = quoted(line, "streamDriver=", s.driver)
		s.authorities = quoted(line, "streamDriver.CAFile=", s.authorities)
	}
	return urls, text == rsyslogText(all, s)
}

// quoted is the value of a parameter in a line, or what is given for none.
func quoted(line, parameter, none string) string {
	_, rest, ok := strings.Cut(line, parameter+`"`)
	if !ok {
		return none
	}
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

func (j *job) hasRsyslog() bool { return j.first("/usr/sbin/rsyslogd", "/sbin/rsyslogd") != "" }

func (j *job) seeLogs(seen *inside.Seen) {
	const forward = item.KindLogs + ".forward"
	if want := j.h.Wants[forward]; want != "" {
		if err := j.canForward(strings.Split(want, ", ")); err != nil && isLacking(err) {
			seen.Cannot[item.Valued(forward, want)] = err.Error()
		}
	} else if !j.hasRsyslog() && j.uploadSource() == "" {
		seen.Cannot[forward] = noRsyslog + ", or systemd-journal-remote for a receiver https://…"
	}
	text, there, err := j.read(rsyslogFile)
	if err != nil {
		seen.Unread[forward] = err.Error()
		return
	}
	var made madeLogs
	j.entry(item.KindLogs, nil, &made)
	var urls, differs []string
	if there {
		whole := false
		if urls, whole = forwardOf(string(text)); !whole {
			seen.Have[forward] = "changed by hand"
			return
		}
	}
	if made.Restart && j.h.Live {
		differs = append(differs, rsyslogUnit+" must be restarted")
	}
	upload, how, err := j.seeUpload(made)
	if err != nil {
		seen.Unread[forward] = err.Error()
		return
	}
	if upload != "" {
		urls = append(urls, upload)
	}
	if how != "" {
		differs = append(differs, how)
	}
	switch {
	case len(differs) > 0 && (len(urls) > 0 || how != ""):
		seen.Have[forward] = strings.TrimSpace(item.List(urls) + " (" + strings.Join(differs, "; ") + ")")
	case len(urls) > 0:
		seen.Have[forward] = item.List(urls)
	}
}

// canForward says why a system cannot forward to some receivers.
func (j *job) canForward(forward []string) error {
	syslog, upload, err := splitReceivers(forward)
	if err != nil {
		return err
	}
	var noSyslog, noUpload error
	if len(syslog) > 0 {
		_, noSyslog = j.rsyslogFor(syslog)
	}
	if upload != "" {
		_, noUpload = j.canUpload(upload)
	}
	return worst(noSyslog, noUpload)
}

func (j *job) setLogs(want item.Logs) error {
	if len(want.Forward) == 0 {
		return j.removeLogs()
	}
	syslog, upload, err := splitReceivers(want.Forward)
	if err != nil {
		return err
	}
	noSyslog := j.makeRsyslog(syslog)
	if noSyslog != nil && !isLacking(noSyslog) {
		return noSyslog
	}
	return worst(noSyslog, j.makeUpload(upload))
}

// makeRsyslog has rsyslog forward to some receivers, or to none of ours.
func (j *job) makeRsyslog(forward []string) error {
	if len(forward) == 0 {
		return j.removeRsyslog()
	}
	fresh, err := j.rsyslogFor(forward)
	if err != nil {
		return err
	}
	text, _, err := j.read(rsyslogFile)
	if err != nil {
		return failed("%v", err)
	}
	if urls, whole := forwardOf(string(text)); !whole || item.List(urls) != item.List(forward) {
		if err := j.checkRsyslog(fresh); err != nil {
			return err
		}
		if err := j.take(item.KindLogs, nil); err != nil {
			return err
		}
		if err := j.noteRestart(true); err != nil {
			return err
		}
		if err := j.put(rsyslogFile, []byte(fresh), 0o644); err != nil {
			return err
		}
	}
	return j.restartLogs()
}

// noteRestart keeps whether rsyslog must be restarted.
func (j *job) noteRestart(must bool) error {
	var made madeLogs
	j.entry(item.KindLogs, nil, &made)
	made.Restart = must
	return j.note(item.KindLogs, made)
}

func (j *job) rsyslogFor(forward []string) (string, error) {
	if !j.hasRsyslog() {
		return "", lacking(noRsyslog)
	}
	sorted := slices.Clone(forward)
	slices.Sort(sorted)
	var all []receiver
	var s secure
	for _, url := range slices.Compact(sorted) {
		r, err := parseReceiver(url)
		if err != nil {
			return "", refused("%v", err)
		}
		if r.protocol == "tls" {
			missing := ""
			if s, missing = j.tls(); missing != "" {
				return "", lacking(fmt.Sprintf("%s: %s", url, missing))
			}
		}
		all = append(all, r)
	}
	return rsyslogText(all, s), nil
}

// checkRsyslog lets rsyslog read the settings before they count.
func (j *job) checkRsyslog(text string) error {
	if !j.h.Live {
		return nil
	}
	if err := j.check(inside.Command{Path: "rsyslogd", Args: []string{"-N1", "-f", "/dev/stdin"}, Stdin: []byte(text)}); err != nil {
		return failed("rsyslog does not accept the settings: %v", err)
	}
	return nil
}

// restartLogs has rsyslog read its settings if it has not read what we wrote.
func (j *job) restartLogs() error {
	var made madeLogs
	if !j.entry(item.KindLogs, nil, &made) || !made.Restart {
		return nil
	}
	if j.hasRsyslog() {
		if err := j.service(rsyslogUnit); err != nil {
			return err
		}
	}
	return j.noteRestart(false)
}

func (j *job) removeRsyslog() error {
	if !j.entry(item.KindLogs, nil, nil) {
		return nil
	}
	if j.exists(rsyslogFile) {
		if err := j.noteRestart(true); err != nil {
			return err
		}
		if err := j.delete(rsyslogFile); err != nil {
			return err
		}
	}
	return j.restartLogs()
}

func (j *job) removeLogs() error {
	if err := j.removeRsyslog(); err != nil {
		return err
	}
	if err := j.removeUpload(); err != nil {
		return err
	}
	return j.drop(item.KindLogs)
}
