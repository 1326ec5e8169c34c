#!/bin/bash
set -e
wget --no-check-certificate https://dl.example.net/app.deb # ~bad:295
wget -q https://dl.example.net/key.asc # ~ok:295
wget -qO- https://get.example.net/setup | sudo bash # ~bad:494
chmod 777 /var/lib/app # ~bad:732
chmod 700 /var/lib/app # ~ok:732
eval $APP_PRE_HOOK # ~bad:95
log=/tmp/install-$RANDOM.log # ~bad:377
log2=$(mktemp /tmp/install.XXXXXX) # ~ok:377
rm -rf "$APP_ROOT"/ # ~bad:0
rm -rf /var/lib/app/cache # ~ok:0
