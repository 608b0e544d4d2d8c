package access

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/hostfile"
)

// Issuer is an issuer of OpenID Connect by which persons log in, as the lines "oidc SETTING: VALUE" of an
// access file have it.
type Issuer struct {
	// URL is the issuer, as its tokens name it.
	URL string
	// Client and Secret are what the page for browsers is at the issuer: the ID of a client, and the file with its
	// secret, which is empty for a public client. Page is the URL of that page. Client and Page are empty where nobody
	// logs in by a browser.
	Client, Secret, Page string
	// Command is the ID of the public client that `slipway login` uses; empty where nobody does.
	Command string
	// Name is the claim that names the person, and Groups the claim with the groups; empty for no groups. The name
	// is an e-mail address that the issuer has verified, unless another claim than "email" is set.
	Name, Groups string
	// Domains are those of the e-mail addresses of persons; empty for any.
	Domains []string
	// Scopes are asked for beside openid and email.
	Scopes []string
	// Authority is a PEM file with the authority of the issuer's certificate; empty for those of the host.
	Authority string
	// Session is how long a browser stays logged in.
	Session time.Duration
}

// Bounds and default of Issuer.Session.
const (
	shortestSession = time.Minute
	longestSession  = 24 * time.Hour
	usualSession    = 8 * time.Hour
)

// mostValue bounds a setting, in bytes.
const mostValue = 1024

// set takes a setting.
func (i *Issuer) set(key, value string) error {
	if value == "" || len(value) > mostValue {
		return fmt.Errorf("oidc %s needs a value of at most %d bytes", key, mostValue)
	}
	into := map[string]*string{
		"issuer": &i.URL, "client": &i.Client, "secret": &i.Secret, "page": &i.Page, "command-client": &i.Command,
		"name": &i.Name, "groups": &i.Groups, "authority": &i.Authority,
	}[key]
	several := map[string]*[]string{"domains": &i.Domains, "scopes": &i.Scopes}[key]
	switch {
	case into != nil && *into != "", several != nil && *several != nil, key == "session" && i.Session != 0:
		return fmt.Errorf("oidc %s is there twice", key)
	case key == "session":
		d, err := hostfile.Within(value, shortestSession, longestSession)
		i.Session = d
		return err
	case several != nil:
		*several = strings.Fields(value)
	case into != nil:
		*into = value
	default:
		return fmt.Errorf("oidc %s is not a setting: write issuer, client, secret, page, command-client, name, groups, domains, scopes, authority or session", key)
	}
	return i.check(key, value)
}

// check refuses a value that cannot be right.
func (i *Issuer) check(key, value string) error {
	switch key {
	case "issuer", "page":
		u, err := url.Parse(value)
		if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(value, "#") {
			return fmt.Errorf("oidc %s: %q is not a URL such as https://HOST", key, value)
		}
		if key == "page" && u.Path != "" {
			return fmt.Errorf("oidc page: %q has a path: write https://HOST:PORT, as browsers reach the page", value)
		}
	case "secret", "authority":
		if !filepath.IsAbs(value) {
			return fmt.Errorf("oidc %s: %q is not the absolute path of a file", key, value)
		}
	case "domains":
		for _, d := range i.Domains {
			if d != strings.ToLower(d) || strings.Trim(d, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" || strings.HasPrefix(d, ".") {
				return fmt.Errorf("oidc domains: %q is not a domain in lower case, such as example.org", d)
			}
		}
	case "client", "command-client", "name", "groups":
		if strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return fmt.Errorf("oidc %s: %q has a space or a character that is not ASCII", key, value)
		}
	}
	return nil
}

// complete fills in what is usual. Its errors begin with the number of a line, as those of Parse do: the first.
func (i *Issuer) complete() error {
	var err error
	switch {
	case i.URL == "":
		err = errors.New("the lines of oidc need one more: \"oidc issuer: URL\"")
	case i.Client == "" && i.Command == "":
		err = errors.New("nobody could log in: write \"oidc client: ID\" for browsers, or \"oidc command-client: ID\" for `slipway login`")
	case (i.Client == "") != (i.Page == ""):
		err = errors.New("\"oidc client\" and \"oidc page\" belong together: browsers come back to the page from the issuer")
	case i.Secret != "" && i.Client == "":
		err = errors.New("\"oidc secret\" is that of \"oidc client\", which is not there")
	case i.Client != "" && i.Client == i.Command:
		err = errors.New("\"oidc client\" and \"oidc command-client\" are one: give the command a public client of its own, so that a token for one is none for the other")
	}
	if err != nil {
		return fmt.Errorf("1: %w", err)
	}
	if i.Name == "" {
		i.Name = "email"
	}
	if i.Session == 0 {
		i.Session = usualSession
	}
	return nil
}
