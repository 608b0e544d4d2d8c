package github

import (
	"net/http"
	"net/url"
	"strings"
)

// route is an operation of GitHub's API, under the path that GitHub's
// description has it under, and what it takes to use it.
type route struct {
	method, path string
	handle       func(*call) answer
	as           as
	needs        []string // permissions of an App or a fine-grained token; one is enough
	role         Role     // of a user, at least
	denied       string   // what is said to a user of a lower role; empty for "Not Found"
	appOnly      bool
	free         bool // of the primary limit
}

// as is as whom a route is used.
type as int

const (
	anyone         as = iota
	onRepo            // whoever has rights on the repository of the path
	appItself         // an App, by JWT
	anInstallation    // an installation, by its token
	somebody          // a user
)

func (r *route) writes() bool { return r.method != http.MethodGet }

const (
	repoPath    = "/repos/{owner}/{repo}"
	pullPath    = repoPath + "/pulls/{pull_number}"
	commitPath  = repoPath + "/commits/{ref}"
	checkPath   = repoPath + "/check-runs/{check_run_id}"
	commentPath = repoPath + "/issues/comments/{comment_id}"
	hookPath    = repoPath + "/hooks/{hook_id}/deliveries"
	oneHook     = hookPath + "/{delivery_id}"
	appHook     = "/app/hook/deliveries"
)

var (
	metadata   = []string{"metadata:read"}
	contents   = []string{"contents:read"}
	pulls      = []string{"pull_requests:read"}
	setPull    = []string{"pull_requests:write"}
	statuses   = []string{"statuses:read"}
	setStatus  = []string{"statuses:write"}
	checks     = []string{"checks:read"}
	setCheck   = []string{"checks:write"}
	comments   = []string{"issues:read", "pull_requests:read"}
	setComment = []string{"issues:write", "pull_requests:write"}
	setHook    = []string{"repository_hooks:write"}
	mustPush   = "Must have push access to view collaborator permission."
)

// routes is what the double serves.
var routes = []route{
	{method: "GET", path: "/rate_limit", handle: (*call).rateLimit, free: true},
	{method: "GET", path: "/user", handle: (*call).getUser, as: somebody},
	{method: "GET", path: "/users/{username}", handle: (*call).getUser},

	{method: "GET", path: "/app", handle: (*call).getApp, as: appItself},
	{method: "GET", path: "/app/installations", handle: (*call).listInstallations, as: appItself},
	{method: "GET", path: "/app/installations/{installation_id}", handle: (*call).getInstallation, as: appItself},
	{method: "POST", path: "/app/installations/{installation_id}/access_tokens", handle: (*call).createToken, as: appItself},
	{method: "GET", path: "/orgs/{org}/installation", handle: (*call).accountInstallation, as: appItself},
	{method: "GET", path: "/users/{username}/installation", handle: (*call).accountInstallation, as: appItself},
	{method: "GET", path: appHook, handle: (*call).listDeliveries, as: appItself},
	{method: "GET", path: appHook + "/{delivery_id}", handle: (*call).getDelivery, as: appItself},
	{method: "POST", path: appHook + "/{delivery_id}/attempts", handle: (*call).redeliver, as: appItself},
	{method: "GET", path: "/installation/repositories", handle: (*call).installationRepositories, as: anInstallation},
	{method: "DELETE", path: "/installation/token", handle: (*call).revokeToken, as: anInstallation},

	{method: "GET", path: repoPath, handle: (*call).getRepository, as: onRepo, needs: metadata, role: Read},
	{method: "GET", path: repoPath + "/installation", handle: (*call).repositoryInstallation, as: appItself},
	{method: "GET", path: repoPath + "/collaborators/{username}/permission", handle: (*call).getPermission, as: onRepo, needs: metadata, role: Write, denied: mustPush},
	{method: "GET", path: repoPath + "/compare/{basehead}", handle: (*call).compare, as: onRepo, needs: contents, role: Read},
	{method: "GET", path: hookPath, handle: (*call).listDeliveries, as: onRepo, needs: setHook, role: Admin},
	{method: "GET", path: oneHook, handle: (*call).getDelivery, as: onRepo, needs: setHook, role: Admin},
	{method: "POST", path: oneHook + "/attempts", handle: (*call).redeliver, as: onRepo, needs: setHook, role: Admin},

	{method: "GET", path: repoPath + "/pulls", handle: (*call).listPulls, as: onRepo, needs: pulls, role: Read},
	{method: "POST", path: repoPath + "/pulls", handle: (*call).createPull, as: onRepo, needs: setPull, role: Write},
	{method: "GET", path: pullPath, handle: (*call).getPull, as: onRepo, needs: pulls, role: Read},
	{method: "GET", path: pullPath + "/files", handle: (*call).listFiles, as: onRepo, needs: pulls, role: Read},
	{method: "GET", path: pullPath + "/commits", handle: (*call).listCommits, as: onRepo, needs: pulls, role: Read},

	{method: "GET", path: repoPath + "/commits/{commit_sha}/pulls", handle: (*call).pullsOfCommit, as: onRepo, needs: pulls, role: Read},
	{method: "GET", path: commitPath, handle: (*call).getCommit, as: onRepo, needs: contents, role: Read},
	{method: "POST", path: repoPath + "/statuses/{sha}", handle: (*call).createStatus, as: onRepo, needs: setStatus, role: Write},
	{method: "GET", path: commitPath + "/statuses", handle: (*call).listStatuses, as: onRepo, needs: statuses, role: Read},
	{method: "GET", path: commitPath + "/status", handle: (*call).combinedStatus, as: onRepo, needs: statuses, role: Read},
	{method: "GET", path: commitPath + "/check-runs", handle: (*call).listChecks, as: onRepo, needs: checks, role: Read},
	{method: "POST", path: repoPath + "/check-runs", handle: (*call).createCheck, as: onRepo, needs: setCheck, role: Write, appOnly: true},
	{method: "GET", path: checkPath, handle: (*call).getCheck, as: onRepo, needs: checks, role: Read},
	{method: "PATCH", path: checkPath, handle: (*call).updateCheck, as: onRepo, needs: setCheck, role: Write, appOnly: true},
	{method: "GET", path: checkPath + "/annotations", handle: (*call).listAnnotations, as: onRepo, needs: checks, role: Read},

	{method: "GET", path: repoPath + "/issues/comments", handle: (*call).listAllComments, as: onRepo, needs: comments, role: Read},
	{method: "GET", path: repoPath + "/issues/{issue_number}/comments", handle: (*call).listComments, as: onRepo, needs: comments, role: Read},
	{method: "GET", path: repoPath + "/issues/{issue_number}/timeline", handle: (*call).timeline, as: onRepo, needs: comments, role: Read},
	{method: "POST", path: repoPath + "/issues/{issue_number}/comments", handle: (*call).createComment, as: onRepo, needs: setComment, role: Read},
	{method: "GET", path: commentPath, handle: (*call).getComment, as: onRepo, needs: comments, role: Read},
	{method: "PATCH", path: commentPath, handle: (*call).editComment, as: onRepo, needs: setComment, role: Read},
	{method: "DELETE", path: commentPath, handle: (*call).deleteComment, as: onRepo, needs: setComment, role: Read},
	{method: "GET", path: commentPath + "/reactions", handle: (*call).listReactions, as: onRepo, needs: comments, role: Read},
	{method: "POST", path: commentPath + "/reactions", handle: (*call).createReaction, as: onRepo, needs: setComment, role: Read},
	{method: "DELETE", path: commentPath + "/reactions/{reaction_id}", handle: (*call).deleteReaction, as: onRepo, needs: setComment, role: Read},
}

// match finds the route of a path, and its parameters.
func match(method, path string) (*route, map[string]string) {
	parts := strings.Split(path, "/")
	for i := range routes {
		r := &routes[i]
		if params, ok := r.fits(parts); ok && r.method == method {
			return r, params
		}
	}
	return nil, nil
}

func (r *route) fits(parts []string) (map[string]string, bool) {
	want := strings.Split(r.path, "/")
	if len(want) != len(parts) {
		return nil, false
	}
	params := map[string]string{}
	for i, w := range want {
		v, err := url.PathUnescape(parts[i])
		if err != nil {
			return nil, false
		}
		name, isParam := strings.CutPrefix(w, "{")
		if !isParam && v != w {
			return nil, false
		}
		if isParam {
			params[strings.TrimSuffix(name, "}")] = v
		}
	}
	return params, true
}
