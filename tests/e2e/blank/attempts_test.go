package blank

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// outcome is what became of an attempt. That something did not answer refuses nothing.
type outcome string

const (
	accepted outcome = "accepted"
	refused  outcome = "refused"
	unknown  outcome = "unknown"
)

// attempt tries something of an identity with a client that is not Slipway's.
type attempt struct {
	what string
	try  func() (is outcome, said string)
}

// all tries each and holds what becomes of it.
func (w *designed) all(when string, want outcome, tries []attempt) {
	w.t.Helper()
	for _, a := range tries {
		if is, said := a.try(); is != want {
			w.t.Errorf("%s: %s was %s, and should have been %s:\n%s", when, a.what, is, want, said)
		}
	}
	w.t.Logf("%s: %d attempts, all to be %s", when, len(tries), want)
}

// code is the exit code of a program, -1 if it has none.
func code(err error) int {
	if err == nil {
		return 0
	}
	if e, is := errors.AsType[*exec.ExitError](err); is {
		return e.ExitCode()
	}
	return -1
}

// ssh logs in with OpenSSH's client, and says whether the client and the server let it.
func (w *designed) ssh(known, at string, args ...string) (outcome, string) {
	common := []string{"-n", "-F", "none", "-o", "ConnectTimeout=10", "-o", "IdentityAgent=none", "-o", "IdentitiesOnly=yes", "-o", "NumberOfPasswordPrompts=1", "-o", "LogLevel=ERROR"}
	if known == "" {
		common = append(common, "-o", "UserKnownHostsFile=/dev/null", "-o", "StrictHostKeyChecking=no")
	} else {
		common = append(common, "-o", "UserKnownHostsFile="+known, "-o", "GlobalKnownHostsFile=/dev/null", "-o", "StrictHostKeyChecking=yes")
	}
	out, err := w.run("ssh", append(append(common, args...), at, "true")...)
	switch {
	case code(err) == 0:
		return accepted, out
	case code(err) == 255 && (strings.Contains(out, "Permission denied") || strings.Contains(out, "Host key verification failed") || strings.Contains(out, "No ED25519 host key is known")):
		return refused, out
	}
	return unknown, out
}

// byKey logs in with a key, and a certificate of it where there is one.
func (w *designed) byKey(node, account, key, certificate string) attempt {
	args := []string{"-o", "BatchMode=yes", "-i", w.at(key)}
	what := fmt.Sprintf("%s of %s by the key %s", account, node, key)
	if certificate != "" {
		args, what = append(args, "-o", "CertificateFile="+w.at(certificate)), fmt.Sprintf("%s of %s by the certificate %s", account, node, certificate)
	}
	return attempt{what, func() (outcome, string) { return w.ssh("", account+"@"+addressOf[node], args...) }}
}

// byPassword logs in with a password, which ssh asks a program for.
func (w *designed) byPassword(node, account, password string) attempt {
	return attempt{fmt.Sprintf("%s of %s by the password %s", account, node, password), func() (outcome, string) {
		ask := w.at("askpass-" + password)
		if err := os.WriteFile(ask, []byte("#!/bin/sh\necho '"+password+"'\n"), 0o700); err != nil {
			return unknown, err.Error()
		}
		w.t.Setenv("SSH_ASKPASS", ask)
		w.t.Setenv("SSH_ASKPASS_REQUIRE", "force")
		return w.ssh("", account+"@"+addressOf[node], "-o", "PubkeyAuthentication=no", "-o", "PreferredAuthentications=password")
	}}
}

// asKnown logs in as ops where a file of known hosts has the system's identity.
func (w *designed) asKnown(node, known string) attempt {
	return attempt{fmt.Sprintf("%s as %s knows it", node, known), func() (outcome, string) {
		return w.ssh(w.at(known), "ops@"+addressOf[node], "-o", "BatchMode=yes", "-i", w.at("key"))
	}}
}

// http asks with curl. It says what the server answers to who may not ask.
func (w *designed) http(url string, args ...string) (outcome, string) {
	out, err := w.run("curl", append([]string{"-sS", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "20", url}, args...)...)
	switch answer := out[max(0, len(out)-3):]; {
	case err == nil && answer == "200":
		return accepted, out
	case err == nil && (answer == "401" || answer == "403"):
		return refused, out
	case code(err) == 60, regexp.MustCompile(`alert (bad certificate|unknown ca|certificate required|unknown)`).MatchString(out): // CURLE_PEER_FAILED_VERIFICATION
		return refused, out
	}
	return unknown, out
}

// bmc logs in to a BMC with a password.
func (w *designed) bmc(node, user, password string) attempt {
	return attempt{fmt.Sprintf("%s of the BMC of %s by the password %s", user, node, password), func() (outcome, string) {
		return w.http("https://"+bmcOf[node]+":18443/redfish/v1/Systems", "--cacert", w.at("bmc-ca.pem"), "-u", user+":"+password)
	}}
}

// session goes on in a session of a BMC.
func (w *designed) session(node, token string) attempt {
	return attempt{"an earlier session of the BMC of " + node, func() (outcome, string) {
		return w.http("https://"+bmcOf[node]+":18443/redfish/v1/Systems", "--cacert", w.at("bmc-ca.pem"), "-H", "X-Auth-Token: "+token)
	}}
}

// opensSession logs in to a BMC and keeps the session.
func (w *designed) opensSession(node, user, password string) (token string) {
	w.t.Helper()
	out := w.does("curl", "-sS", "-i", "--cacert", w.at("bmc-ca.pem"), "-H", "Content-Type: application/json", "-d", fmt.Sprintf(`{"UserName":%q,"Password":%q}`, user, password),
		"https://"+bmcOf[node]+":18443/redfish/v1/SessionService/Sessions")
	m := regexp.MustCompile(`(?i)X-Auth-Token: *(\S+)`).FindStringSubmatch(out)
	if m == nil {
		w.t.Fatalf("the BMC of %s opens no session for %s: %s", node, user, out)
	}
	return m[1]
}

// asServer shows a node's certificate as a server does, to a client that trusts what a file has.
func (w *designed) asServer(name, certificate, authorities string) attempt {
	return attempt{fmt.Sprintf("the certificate %s of %s by who trusts %s", certificate, name, authorities), func() (outcome, string) {
		server := exec.Command("openssl", "s_server", "-accept", "127.0.0.1:4433", "-cert", w.at(certificate+"/cert.pem"), "-key", w.at(certificate+"/key.pem"), "-www", "-quiet")
		if err := server.Start(); err != nil {
			return unknown, err.Error()
		}
		defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
		for end := time.Now().Add(20 * time.Second); ; <-time.After(100 * time.Millisecond) {
			is, said := w.http("https://"+name+":4433/", "--resolve", name+":4433:127.0.0.1", "--cacert", w.at(authorities))
			if is != unknown || time.Now().After(end) { // it listens a moment after its start
				return is, said
			}
		}
	}}
}

// asCaller shows a certificate to the API of the daemon.
func (w *designed) asCaller(certificate string) attempt {
	return attempt{"the API with the certificate " + certificate, func() (outcome, string) {
		// The server says no after the handshake of TLS 1.3 is over for the client, which may be writing by then.
		return w.http("https://10.5.0.1:8443/api/v1/whoami", "--tls-max", "1.2", "--cacert", w.at("people/ca.pem"), "--cert", w.at(certificate+"/cert.pem"), "--key", w.at(certificate+"/key.pem"))
	}}
}

// asAgent calls the daemon as the agent of a boot does, with its token.
func (w *designed) asAgent(token string) attempt {
	return attempt{"an agent with an earlier token", func() (outcome, string) {
		hello, err := json.Marshal(map[string]any{"version": 3, "token": token, "machine": map[string]any{"uuid": "5e1d0000-0000-4000-8000-000000000001", "serial": "WEB1",
			"ports": []any{map[string]any{"name": "eno1", "mac": "02:00:5e:00:53:01"}}}})
		if err != nil {
			return unknown, err.Error()
		}
		frame := w.at("hello")
		if err := os.WriteFile(frame, append(binary.BigEndian.AppendUint32(nil, uint32(len(hello))), hello...), 0o600); err != nil {
			return unknown, err.Error()
		}
		out, _ := w.run("sh", "-c", `(cat "$0"; sleep 5) | timeout 20 openssl s_client -quiet -connect 10.5.0.1:9481 -cert people/ana/cert.pem -key people/ana/key.pem 2>&1`, frame)
		switch {
		case strings.Contains(out, `"refused":"`):
			return refused, out
		case strings.Contains(out, `"node":"`):
			return accepted, out
		}
		return unknown, out
	}}
}

// steals copies what root of a node can read.
func (w *designed) steals(node, to string, files ...string) {
	w.t.Helper()
	check(w.t, os.MkdirAll(w.at(to), 0o700))
	for _, file := range files {
		out, err := w.run("ssh", "-n", "-F", "none", "-i", w.at("key"), "-o", "BatchMode=yes", "-o", "UserKnownHostsFile=/dev/null", "-o", "StrictHostKeyChecking=no", "-o", "LogLevel=ERROR",
			"ops@"+addressOf[node], "sudo -n cat "+file+" 2>/dev/null")
		if err != nil || out == "" {
			w.t.Fatalf("root of %s cannot read %s: %v\n%s", node, file, err, out)
		}
		w.write(to+"/"+strings.Trim(filepath.Base(file), "*"), out+"\n")
	}
}
