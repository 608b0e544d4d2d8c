package secret

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/hostfile"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/vault"
)

// vaultServer is the server of secrets for the credentials of a design.
type vaultServer struct {
	path string // of the file that says where the server is

	mu            sync.Mutex
	authorities   string // their file, if that file names one
	stamps        [2]hostfile.Stamp
	server        *vault.Server
	timeout, keep time.Duration
}

// Vault names the file that describes the server for credentials from "vault":
//
//	address: https://bao.example.org:8200
//	ca: /etc/slipway/bao-ca.pem
//	namespace: team
//	mount: secret
//	credential: vault
//	timeout: 10s
//	keep: 5m
//
// Only the address is required. The credential is a file of this store for the use "vault".
// It holds a token or, with a username, the secret ID of the AppRole whose role ID is the
// username. The file belongs to root, and nobody else may change it, because it says where
// the login is sent.
func (s *Store) Vault(file string) { s.vault.path = file }

// fromVault returns a credential that a server of secrets keeps.
func (s *Store) fromVault(name string, c *site.Credential, d *site.Site) (*file, error) {
	server, timeout, keep, by, err := s.server()
	if err != nil {
		return nil, err
	}
	f, err := s.fetchOf("vault "+d.Name+" "+name+" "+c.Key).get(by, func() (*file, time.Duration, error) {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		object, err := server.Read(ctx, c.Key)
		if err != nil {
			return nil, 0, err
		}
		text, err := vault.Credential(object, d.Name)
		if err != nil {
			return nil, 0, err
		}
		f, err := readKept(text, "in the object")
		clear(text) // f keeps its own string
		if err != nil {
			return nil, 0, err
		}
		f.path, f.elsewhere = c.Key, server.Address.Host
		return f, keep, nil
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %s on %s: %w", ErrUnavailable, c.Key, server.Address.Host, err)
	}
	return f, nil
}

// server returns the server of secrets that the host's files currently describe.
func (s *Store) server() (server *vault.Server, timeout, keep time.Duration, by hostfile.Stamp, err error) {
	v := &s.vault
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.path == "" {
		return nil, 0, 0, hostfile.Stamp{}, fmt.Errorf("%w: it comes from a server of secrets, and --vault names no file that says where that is", ErrMissing)
	}
	now, err := stampsOf(v.path, v.authorities)
	if err == nil && v.server != nil && v.stamps == now {
		return v.server, v.timeout, v.keep, now[0], nil
	}
	v.server = nil
	err = s.readServer(v)
	if errors.Is(err, fs.ErrNotExist) && v.authorities == "" {
		err = fmt.Errorf("it comes from a server of secrets, and there is no file %s: make it as root, with the line \"address: https://bao.example.org:8200\"", v.path)
	}
	if err == nil {
		v.stamps, err = stampsOf(v.path, v.authorities)
	}
	if err != nil {
		v.server = nil
		return nil, 0, 0, hostfile.Stamp{}, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	return v.server, v.timeout, v.keep, v.stamps[0], nil
}

// stampsOf returns the stamps of a server's file and of its authorities, if it names any.
func stampsOf(files ...string) (all [2]hostfile.Stamp, err error) {
	for i, file := range files {
		if file == "" {
			continue
		}
		info, err := os.Stat(file)
		if err != nil {
			return all, err
		}
		all[i] = hostfile.StampOf(info)
	}
	return all, nil
}

// readServer reads the file of a server.
func (s *Store) readServer(v *vaultServer) error {
	path := v.path
	v.authorities = ""
	text, err := readOwned(path, s.owner)
	if err != nil {
		return err
	}
	given := map[string]string{"mount": "secret", "credential": "vault", "timeout": "10s", "keep": "5m", "address": "", "ca": "", "namespace": ""}
	seen := map[string]bool{}
	err = hostfile.EachSetting(text, "address, ca, namespace, mount, credential, timeout and keep", func(key, value string, _ int) (bool, error) {
		if seen[key] {
			return true, fmt.Errorf("%q is given twice", key)
		}
		_, known := given[key]
		given[key], seen[key] = value, true
		return known, nil
	})
	if err != nil {
		return fmt.Errorf("%s:%w", path, err)
	}
	timeout, err := hostfile.Within(given["timeout"], time.Second, longestTimeout)
	if err != nil {
		return fmt.Errorf("%s: the timeout %w", path, err)
	}
	keep, err := hostfile.Within(given["keep"], 0, longestKeep)
	if err != nil {
		return fmt.Errorf("%s: the time to keep a secret %w", path, err)
	}
	address, err := url.Parse(given["address"])
	if err != nil || address.Host == "" || address.User != nil {
		return fmt.Errorf("%s: there is no \"address:\" line with a URL such as https://bao.example.org:8200", path)
	}
	authorities := ""
	if v.authorities = given["ca"]; v.authorities != "" {
		if authorities, err = readOwned(v.authorities, s.owner); err != nil {
			return fmt.Errorf("%s: the authorities: %w", path, err)
		}
	}
	server, err := vault.New(address, authorities)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	server.Namespace, server.Mount = given["namespace"], given["mount"]
	server.Login = func(at *url.URL) (vault.Login, error) { return s.login(given["credential"], at) }
	v.server, v.timeout, v.keep = server, timeout, keep
	return nil
}

// login returns the login to send to the server.
func (s *Store) login(name string, at *url.URL) (vault.Login, error) {
	r, err := For(name, Vault, at)
	if err != nil {
		return vault.Login{}, err
	}
	v, err := s.Get(r)
	if err != nil {
		return vault.Login{}, err
	}
	text, err := v.Password()
	if err != nil {
		return vault.Login{}, fmt.Errorf("credential %q: %w", name, err)
	}
	return vault.Login{Role: v.Username(), Secret: text}, nil
}
