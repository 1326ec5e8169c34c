<?php
function shop_find() {
    global $wpdb;
    $name = $_GET['name'];
    $rows = $wpdb->get_results("SELECT * FROM shop_items WHERE name = '$name'"); // ~bad:89
    wp_send_json($rows);
}

function shop_find_safely() {
    global $wpdb;
    $rows = $wpdb->get_results($wpdb->prepare('SELECT * FROM shop_items WHERE name = %s', $_GET['name'])); // ~ok:89
    wp_send_json($rows);
}

class ItemController extends Controller
{
    public function index(Request $request)
    {
        $sort = $request->input('sort');
        return DB::select("select * from items order by $sort"); // ~bad:89
    }

    public function show($id)
    {
        return DB::select('select * from items where id = ?', [$id]); // ~ok:89
    }

    public function download(Request $request)
    {
        return file_get_contents(storage_path('app/') . $request->input('file')); // ~bad:22
    }

    public function import()
    {
        $items = unserialize(base64_decode($_POST['items'])); // ~bad:502
        return count($items);
    }

    public function render()
    {
        print "<p>" . $_REQUEST['message'] . "</p>"; // ~bad:79
    }

    public function backup($name)
    {
        exec("tar czf /backups/$name.tgz /srv/items"); // ~bad:78
    }

    public function token()
    {
        $token = sha1(mt_rand() . time()); // ~bad:338
        return $token;
    }

    public function checksum($file)
    {
        return md5_file($file); // ~ok:327
    }
}
