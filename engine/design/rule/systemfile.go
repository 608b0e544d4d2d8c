package rule

import (
	"fmt"
	"path"
	"regexp"
	"strconv"

	"github.com/slipway-gitops/slipway/engine/site"
)

func fileSources(c contents) []site.Finding {
	var found []site.Finding
	for _, name := range keys(c.files) {
		f, at := c.files[name], c.path+".files."+name
		var sources []string
		clash := false
		for _, source := range []string{"content", "artifact", "credential"} {
			if c.set(at + "." + source) {
				sources = append(sources, source)
			}
			clash = clash || c.clash(at+".state", at+"."+source)
		}
		switch {
		case f.State == "absent" && clash:
			found = append(found, wrong(at+".state", fmt.Sprintf("the file %s is absent and has a content", name),
				"Remove the content, or the state."))
		case f.State == "absent":
		case len(sources) > 1:
			places := map[string]string{"content": "here", "artifact": "in an artifact", "credential": "in a credential"}
			found = append(found, wrong(at+"."+sources[len(sources)-1],
				fmt.Sprintf("the file %s has its content %s and %s", name, places[sources[0]], places[sources[len(sources)-1]]), "Remove one of the two."))
		case len(sources) == 0:
			found = append(found, wrong(at, fmt.Sprintf("the file %s has no content", name),
				`Set content, artifact or credential; an empty file has the content "".`))
		}
	}
	return found
}

// fileCredentials reports credentials that the design does not declare.
func fileCredentials(s *site.Site) func(contents) []site.Finding {
	return func(c contents) (found []site.Finding) {
		for _, name := range keys(c.files) {
			found = append(found, refer(c.path+".files."+name+".credential", "credentials", c.files[name].Credential, s.Credentials)...)
		}
		return found
	}
}

// fileSecrets reports files with secrets that everybody may read.
func fileSecrets(c contents) []site.Finding {
	var found []site.Finding
	for _, name := range keys(c.files) {
		f := c.files[name]
		mode, err := strconv.ParseUint(f.Mode, 8, 16)
		if err == nil && f.Credential != "" && mode&0o007 != 0 {
			found = append(found, wrong(c.path+".files."+name+".mode",
				fmt.Sprintf("the file %s has the value of the credential %q, and is open to everybody (%04o)", name, f.Credential, mode),
				fmt.Sprintf("Write %q. An account that should read it is its owner, or is in its group.", fmt.Sprintf("%04o", mode&^0o007))))
		}
	}
	return found
}

func filePaths(c contents) []site.Finding {
	var found []site.Finding
	for _, name := range keys(c.files) {
		at := c.path + ".files." + name
		if short := path.Clean("/" + name); short != name || name == "/" {
			found = append(found, wrong(at, fmt.Sprintf("%q is not the shortest path of a file", name), fmt.Sprintf("Write %q.", short)))
			continue
		}
		for dir := path.Dir(name); dir != "/"; dir = path.Dir(dir) {
			if f, ok := c.files[dir]; ok && f.State != "absent" && c.files[name].State != "absent" {
				found = append(found, wrong(at, fmt.Sprintf("%s is to be in %s, which is a file itself", name, dir), "Correct one of the two."))
			}
		}
	}
	return found
}

func fileModes(c contents) []site.Finding {
	var found []site.Finding
	for _, name := range keys(c.files) {
		mode, err := strconv.ParseUint(c.files[name].Mode, 8, 16)
		if err == nil && mode&0o002 != 0 {
			found = append(found, wrong(c.path+".files."+name+".mode",
				fmt.Sprintf("everybody may write the file %s (%04o)", name, mode), fmt.Sprintf("Write %q.", fmt.Sprintf("%04o", mode&^0o002))))
		}
	}
	return found
}

// fileOwners checks the accounts of a file's family first, then those of all
// families.
func fileOwners(s *site.Site, n *site.Node) []site.Finding {
	return eachSystem(func(path string, x site.System) []site.Finding {
		var found []site.Finding
		gone := func(name, field, file string) {
			u, ok := x.Users[name]
			if !ok {
				u = n.System.Users[name]
			}
			if name != "" && u.State == "absent" {
				found = append(found, wrong(path+".files."+file+"."+field,
					fmt.Sprintf("the file %s belongs to %s, which the design removes", file, name),
					"Give it to another account, or keep this one."))
			}
		}
		for _, name := range keys(x.Files) {
			if f := x.Files[name]; f.State != "absent" {
				gone(f.Owner, "owner", name)
				gone(f.Group, "group", name)
			}
		}
		return found
	})(s, n)
}

// reference matches a fact's name in a text: {rack}, but not ${HOME}, which
// belongs to the shell.
var reference = regexp.MustCompile(`(^|[^$])\{([A-Za-z][A-Za-z0-9._/-]*)\}`)

func fileTemplates(s *site.Site, n *site.Node) []site.Finding {
	found := eachSystem(func(path string, x site.System) []site.Finding {
		return templates(n, path+".files.", x.Files)
	})(s, n)
	for _, key := range keys(s.BootActions) {
		a := s.BootActions[key]
		if a.Nodes.Selects(n) {
			for _, f := range templates(n, "bootActions."+key+".files.", a.Files) {
				found = append(found, ofSite(s, f))
			}
		}
	}
	return found
}

func templates(n *site.Node, path string, files map[string]site.File) []site.Finding {
	var found []site.Finding
	for _, name := range keys(files) {
		f := files[name]
		if !f.Template || f.Content == nil {
			continue
		}
		for _, m := range reference.FindAllStringSubmatch(*f.Content, -1) {
			if p := m[2]; p != "name" && !states(n, p) {
				known := append(paths(n.Origins), "name")
				found = append(found, wrong(path+name+".content",
					fmt.Sprintf("{%s} in %s stands for nothing%s", p, name, DidYouMean(p, known)),
					"Write the path of a value that the node has, as `slipway explain NODE` lists them."))
			}
		}
	}
	return found
}
