package actions

import (
	"os"
	"os/user"
	"strings"
)

// UserAtHost names the user of this process for histories, as in "ada@laptop".
func UserAtHost() string {
	name := "unknown"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username[strings.LastIndexByte(u.Username, '\\')+1:] // Windows puts the domain before it
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		return name
	}
	return name + "@" + host
}
