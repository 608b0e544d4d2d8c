package design

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/cleartext"
	"github.com/slipway-gitops/slipway/engine/sealed"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sops"
)

// secretsIn returns the folder of a site's encrypted secrets. dir is the folder of
// the site's package.
func secretsIn(dir string) string { return path.Join(dir, sealed.Folder) }

// isSecret reports whether a file is in the site's folder of secrets.
func (p *pack) isSecret(name string) bool { return strings.HasPrefix(name, secretsIn(p.dir)+"/") }

// withSecrets adds the encrypted files that a site's credentials name. They never
// pass through CUE, and nothing is decrypted here.
func (e *evaluation) withSecrets(p pack, r Result) Result {
	found := secretFindings(p)
	if r.Site != nil {
		named := map[string][]byte{}
		for _, name := range slices.Sorted(maps.Keys(r.Site.Credentials)) {
			c := r.Site.Credentials[name]
			if c.SealedFile(name) == "" {
				continue
			}
			file := path.Join(secretsIn(p.dir), c.SealedFile(name))
			if text, ok := p.sealed[file]; ok {
				named[file] = text
			} else {
				found.at(r.Site.Origins.Of("credentials."+name+".from"), missingSecret(name, c, file))
			}
		}
		for _, file := range slices.Sorted(maps.Keys(p.sealed)) {
			if _, used := named[file]; !used && isEncrypted(file) {
				found.add(unusedSecret(file))
			}
		}
		if len(named) > 0 {
			r.Site.Sealed = &site.SealedFiles{Folder: secretsIn(p.dir), Files: named}
		}
	}
	if len(found.list) == 0 {
		return r
	}
	r.Findings = append(slices.Clip(r.Findings), found.list...)
	site.SortFindings(r.Findings)
	if e.withheld(r.Findings) {
		r.Site, r.Explanation = nil, nil
	}
	return r
}

func missingSecret(name string, c *site.Credential, file string) site.Finding {
	fix := fmt.Sprintf("Make it with `slipway secret set %s`, and commit it with this line.", name)
	if c.From == site.FromSOPS {
		fix = "Add the file to the commit, or correct its name: the name alone, of a file in that folder."
	}
	return site.Finding{
		Code: "secret-without-file", Path: "credentials." + name + ".from",
		Message: fmt.Sprintf("there is no file %s with the secret of the credential %q", file, name),
		Why:     "Slipway could not log in with it, and would find that out at the machines.",
		Fix:     fix,
	}
}

func unusedSecret(file string) site.Finding {
	return site.Finding{
		Code: "unused-secret", Severity: site.SeverityNote, File: file, Line: 1, Col: 1,
		Message: fmt.Sprintf("no credential names the secret %s", file),
		Why:     "It may be left over, or the credential that should use it reads a file of the bootstrap host in its place.",
		Fix:     "Add `from: \"sealed\"` to its credential (`from: \"sops\"` for a file of SOPS), or remove the file.",
	}
}

// isEncrypted reports whether a file name is one of an encrypted secret.
func isEncrypted(name string) bool { return strings.HasSuffix(name, sealed.Extension) || IsSOPS(name) }

// sopsName matches the names of SOPS files. The fixed name keeps people from
// committing one unencrypted by mistake.
var sopsName = regexp.MustCompile(`\.sops\.(?:json|yaml|yml)$`)

// IsSOPS reports whether a file name is that of a SOPS file.
func IsSOPS(name string) bool { return sopsName.MatchString(name) }

// plainNames are files in the folder of secrets that are not secret.
var plainNames = []string{sealed.RecipientsFile, "README", "README.md"}

// secretFindings checks the files in the folder of secrets.
func secretFindings(p pack) *findings {
	found := &findings{}
	for _, file := range slices.Sorted(maps.Keys(p.sealed)) {
		text, base := p.sealed[file], path.Base(file)
		switch {
		case strings.HasSuffix(base, sealed.Extension):
			_, err := sealed.Stanzas(text)
			if errors.Is(err, sealed.ErrNotSealed) {
				found.add(inClear(file, 1, "is not encrypted with age"))
			} else if err != nil {
				found.add(damaged(file, 1, err))
			}
		case IsSOPS(base):
			found.add(sopsFindings(file, text)...)
		case slices.Contains(plainNames, base):
			if base == sealed.RecipientsFile {
				if _, err := sealed.ParseRecipients(text, sealed.Means{}); err != nil {
					line, err := leadingLine(err)
					found.add(damaged(file, line, err))
				}
			}
			for _, c := range cleartext.Find(string(text)) {
				found.add(inClear(file, c.Line, "holds what looks like "+c.What))
			}
		default:
			line, what := 1, "is not encrypted"
			if clear := cleartext.Find(string(text)); len(clear) > 0 {
				line, what = clear[0].Line, "holds what looks like "+clear[0].What
			}
			found.add(inClear(file, line, what))
		}
	}
	return found
}

func sopsFindings(file string, text []byte) []site.Finding {
	f, err := sops.Parse(file, text)
	if err != nil && !sops.Is(text) {
		line, _ := leadingLine(err)
		if clear := cleartext.Find(string(text)); len(clear) > 0 {
			line = clear[0].Line
		}
		return []site.Finding{inClear(file, line, "is not encrypted with SOPS")}
	}
	if err != nil {
		line, err := leadingLine(err)
		return []site.Finding{damaged(file, line, err)}
	}
	var found []site.Finding
	clear := f.Clear()
	for _, key := range slices.Sorted(maps.Keys(clear)) {
		if cleartext.NamesSecret(strings.TrimSuffix(key, "_unencrypted")) {
			found = append(found, inClear(file, clear[key], "has "+key+" unencrypted"))
		}
	}
	return found
}

// leadingLine splits the line number at the start of an error from its message.
func leadingLine(err error) (int, error) {
	first, rest, ok := strings.Cut(err.Error(), ": ")
	if line, nerr := strconv.Atoi(first); ok && nerr == nil && line > 0 {
		return line, errors.New(rest)
	}
	return 1, err
}

func inClear(file string, line int, what string) site.Finding {
	return site.Finding{
		Code: "secret-not-encrypted", Severity: site.SeverityError, File: file, Line: line, Col: 1,
		Message: fmt.Sprintf("%s %s", file, what),
		Why:     "Everybody who can read the repository can use it for as long as it is valid: whatever was pushed once stays in the history.",
		Fix:     "Replace the secret wherever it is valid, remove the file, and set the new secret with `slipway secret set NAME`. What is not a secret belongs outside this folder.",
	}
}

func damaged(file string, line int, err error) site.Finding {
	return site.Finding{
		Code: "secret-damaged", Severity: site.SeverityError, File: file, Line: line, Col: 1,
		Message: fmt.Sprintf("%s cannot be used: %v", file, err),
		Why:     "Slipway could not log in with what it holds, and would find that out at the machines.",
		Fix:     "Restore the file from Git, or do what the message says.",
	}
}
